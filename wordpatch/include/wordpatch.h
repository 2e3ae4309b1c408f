/*
 * wordpatch: replace up to eight bytes of running x86-64 code on Linux, without stopping a thread.
 *
 * A patch is seen whole: every thread executes the old bytes or the new ones, never a mixture. A word that crosses an
 * aligned eight-byte boundary is replaced behind a one-byte trap (INT3). For a thread that hits the trap, a signal
 * handler executes the old instruction, and the thread continues at once, however long the patcher takes.
 *
 * YOU MUST GUARANTEE, for every site and every word that you put there:
 *
 *   Layout equivalence.  An instruction begins at the address. Old and new instructions begin at the same addresses.
 *                        No thread jumps, returns or resumes into the middle of an instruction there.
 *   Disjointness.        Sites do not overlap. If overlapping sites are patched at the same time, this is detected: the
 *                        later call fails and changes nothing.
 *   Lifetime.            The code stays mapped. Before it is unmapped (dlclose, munmap), call wordpatch_forget.
 *   SIGTRAP.             No thread that may execute a site blocks SIGTRAP, and no signal handler has it in its sa_mask;
 *                        otherwise a trap would kill the process. Both are checked when a site is adopted, and refused
 *                        by name. The trap handler is installed with the first site that needs it, in front of yours,
 *                        which still gets its own traps; if it is replaced, the next patch notices this.
 *   Signal stacks.       A trap takes one frame of the kernel (AT_MINSIGSTKSZ, getauxval(3)) and at most 256 bytes of
 *                        the thread's signal stack. If a signal handler that runs on such a stack may itself execute a
 *                        site, the stack needs this space in addition to what the handler uses, that is, space for a
 *                        second frame. Stacks of the minimum size that the kernel accepts do not have it.
 *   Ownership.           No other code writes to the bytes of a site.
 *
 * If the process is being traced (a debugger, strace), a patch that needs a trap is refused, because the tracer would
 * get the trap. A tracer that attaches while patches are made is noticed after about ten milliseconds.
 *
 * Functions return true on success. On failure nothing has changed, except where the message says so, and
 * wordpatch_last_error() gives the reason. They may be called from any thread, but not from a signal handler. After
 * fork, parent and child patch independently; a patch that is pending at that moment is finished in the child before
 * fork returns there. A child of _Fork or of the bare system call shares the code that callpatch or wordpatch has made
 * with its parent, and must not patch.
 *
 * The environment selects how patches are done: WORDPATCH_BARRIER (membarrier, signal, wait, wait:TICKS),
 * WORDPATCH_GRANULE (8, 16, 32, 64, calibrated), WORDPATCH_ACCESS (rwx, rwx-lazy, batch, procmem),
 * WORDPATCH_CALIBRATION (a file).
 *
 * Licensed under MIT or Apache-2.0, at your option.
 */
#ifndef WORDPATCH_H
#define WORDPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Replaces the eight bytes at address by value, least significant byte first, and returns when every thread executes
 * the new bytes.
 *
 * It fails if a patch of the site, or of bytes that overlap it, is in progress. If several threads patch one site at
 * the same time, at least one succeeds. Patches of disjoint sites never wait for each other.
 */
bool wordpatch_patch(void *address, uint64_t value);

/* The same for len bytes, 1 to 8. */
bool wordpatch_patch_bytes(void *address, const void *bytes, size_t len);

/*
 * Starts a patch and returns without waiting. Until it is finished, threads may execute the old bytes or the new ones,
 * and each may hit a trap. A site has at most one pending patch; a second one, of either kind, fails.
 */
bool wordpatch_start_patch(void *address, uint64_t value);

/* The same for len bytes, 1 to 8. */
bool wordpatch_start_patch_bytes(void *address, const void *bytes, size_t len);

/*
 * Finishes the patch that was started at address. When it returns true, every thread executes the new bytes. It fails
 * if none was started, or if the patch had to be rolled back; then the old bytes are in place.
 */
bool wordpatch_finish_patch(void *address);

/* Lets a thread of the library finish the patch. wordpatch_finish_patch must still be called, and waits for it. */
bool wordpatch_finish_in_background(void *address);

/* Returns whether a patch that was started at address is still in progress. */
bool wordpatch_is_pending(void *address);

/* Finishes pending patches in [address, address + len), and forgets all sites there. Call it before unmapping code. */
void wordpatch_forget(void *address, size_t len);

/*
 * Returns the reason of the latest failure on this thread, in one line with address and remedy; empty before the first.
 * Valid until the next failure on this thread.
 */
const char *wordpatch_last_error(void);

#ifdef __cplusplus
}
#endif

#endif

/*
 * wordpatch: replace up to eight bytes of running x86-64 code on Linux, without stopping anyone.
 *
 * A patch is seen whole: every thread that comes by executes the old bytes or the new ones, never a mixture. Words that an
 * aligned eight-byte boundary cuts are replaced behind a one-byte trap (INT3); threads that meet it get the old instruction
 * from a signal handler and go on at once, however long the patcher takes.
 *
 * WHAT YOU PROMISE, for every site and every word that you put there:
 *
 *   Layout equivalence.  An instruction begins at the address. The new bytes begin instructions exactly where the old bytes do.
 *                        No thread jumps, returns or resumes into the middle of an instruction there.
 *   Disjointness.        Sites do not overlap. Sites that do, and are patched at the same time, are detected: the later call
 *                        fails and changes nothing.
 *   Lifetime.            The code stays mapped. Before it is unmapped (dlclose, munmap), call wordpatch_forget.
 *   SIGTRAP.             No thread that may execute a site blocks SIGTRAP, and no signal handler has it in its sa_mask; a trap would
 *                        kill the process. Both are looked for when a site is adopted, and refused by name. The trap handler is
 *                        installed with the first site that needs it, in front of yours, which goes on to get its own traps;
 *                        one that is installed in its place is noticed by the next patch.
 *   Signal stacks.       A trap takes one frame of the kernel (AT_MINSIGSTKSZ, getauxval(3)) and at most 256 bytes of the thread's
 *                        signal stack. If a signal handler that runs on such a stack may itself execute a site, the stack has to
 *                        have room for that besides what the handler uses: for a second frame, that is. Stacks of the least
 *                        size that the kernel accepts have not.
 *   Ownership.           Nobody else writes to the bytes of a site.
 *
 * A process that is being traced (a debugger, strace) is refused where a trap would be needed: the tracer would get it. A tracer that
 * comes while patches are made is noticed after about ten milliseconds.
 *
 * Functions return true if they did what they say. Otherwise nothing has changed, except where the message says so, and
 * wordpatch_last_error() tells why. They may be called from any thread, but not from a signal handler. After fork, parent and child
 * patch each for itself; a patch that is pending at that moment is finished in the child before fork returns there. A child of _Fork or of
 * the bare system call shares the code that callpatch or wordpatch has made with its parent, and must not patch.
 *
 * The environment chooses how patches are done: WORDPATCH_BARRIER (membarrier, signal, wait, wait:TICKS), WORDPATCH_GRANULE
 * (8, 16, 32, 64, calibrated), WORDPATCH_ACCESS (rwx, rwx-lazy, batch, procmem), WORDPATCH_CALIBRATION (a file).
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
 * Replaces the eight bytes at address by value, as it lies in memory (least significant byte first), and returns when every
 * thread that comes by executes them.
 *
 * It fails if a patch of the site, or of bytes that overlap it, is under way. Of several threads that patch one site at the same
 * time at least one succeeds. Patches of disjoint sites never wait for each other.
 */
bool wordpatch_patch(void *address, uint64_t value);

/* The same for len bytes, 1 to 8. */
bool wordpatch_patch_bytes(void *address, const void *bytes, size_t len);

/*
 * Starts a patch and returns without waiting. Until it is finished, threads may execute the old bytes or the new ones, and each
 * may pay for a trap. A site has one patch pending at a time; a second one, of either kind, fails.
 */
bool wordpatch_start_patch(void *address, uint64_t value);

/* The same for len bytes, 1 to 8. */
bool wordpatch_start_patch_bytes(void *address, const void *bytes, size_t len);

/*
 * Finishes the patch that was started at address: when it returns true, every thread that comes by executes the new bytes.
 * Fails if none was started, or if the patch had to be taken back; then the old bytes are in place.
 */
bool wordpatch_finish_patch(void *address);

/* Lets a thread of the library finish the patch. wordpatch_finish_patch has still to be called, and waits for it. */
bool wordpatch_finish_in_background(void *address);

/* Whether a patch that was started at address is not over yet. */
bool wordpatch_is_pending(void *address);

/* Finishes what is pending in [address, address + len) and forgets all sites there. Call it before code is unmapped. */
void wordpatch_forget(void *address, size_t len);

/*
 * Why the latest call that failed on this thread did so: one line, naming address and remedy; empty before the first. Valid
 * until the next failure on this thread.
 */
const char *wordpatch_last_error(void);

#ifdef __cplusplus
}
#endif

#endif

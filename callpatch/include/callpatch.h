/*
 * callpatch: switch calls in running x86-64 code on Linux on and off, without stopping a thread.
 *
 * A call that is on is E8 and a displacement of four bytes. Off, its first byte is A9, which makes it
 * `test eax, imm32`: it only changes flags, which are dead after a call. One store of one byte switches between the
 * two. Every thread executes one or the other, and none has to wait. Calls with a prefix (67 E8) and calls through a
 * slot (FF 15) are switched in the same way.
 *
 * YOU MUST GUARANTEE, for every address that you pass:
 *
 *   A call.        An instruction begins there, which is a call, or was one that callpatch has switched off. It calls
 *                  code that may be skipped: a hook. No thread jumps or returns into the middle of it.
 *   Flags.         No code after the call uses flags set before it. This holds for every call made by a compiler.
 *   Callees.       The callee stays in place for as long as the call can be on, and while a thread may be inside.
 *   Lifetime.      The code stays mapped. Before it is unmapped (dlclose, munmap), call callpatch_forget.
 *   Ownership.     No other code writes to the call, except debuggers: a breakpoint found there is reported, and stays.
 *
 * Functions return true on success. On failure nothing has changed, except where the message says so, and
 * callpatch_last_error() gives the reason. They may be called from any thread, but not from a signal handler. A forked
 * child switches its own calls; a child of _Fork or of the bare system call, which run no handlers, shares islands with
 * its parent and must not switch calls.
 *
 * The environment selects how text is made writable and how other cores are synchronised: see the keys WORDPATCH_ACCESS
 * and WORDPATCH_BARRIER in wordpatch.h. This library contains all of wordpatch: link only one of the two.
 *
 * Licensed under MIT or Apache-2.0, at your option.
 */
#ifndef CALLPATCH_H
#define CALLPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Switches the call at address on. Its target is offset bytes behind the instruction's end: for a call of five bytes,
 * offset = callee - (address + 5). For a call through a slot, the target is the slot.
 *
 * If the call had another target before, it is off for the duration of a barrier (some ten microseconds), and then has
 * the new target. If the target is the same, this is a load and a store.
 */
bool callpatch_activate_call(void *address, int32_t offset);

/* Switches the call at address off. A thread that is inside the callee continues there until it returns. */
bool callpatch_deactivate_call(void *address);

/* Forgets all calls in [address, address + len), in their current state. Call it before code is unmapped. */
void callpatch_forget(void *address, size_t len);

/*
 * Returns the reason of the latest failure on this thread, in one line with address and remedy; empty before the first.
 * Valid until the next failure on this thread.
 */
const char *callpatch_last_error(void);

#ifdef __cplusplus
}
#endif

#endif

/*
 * callpatch: switch calls in running x86-64 code on Linux on and off, without stopping anyone.
 *
 * A call that is on is E8 and a displacement of four bytes. Off, its first byte is A9 and it is a `test eax, imm32`, which does
 * nothing but change flags that nobody needs behind a call. Both are switched by one store of one byte: every thread that
 * comes by executes one or the other, and none has to wait. Calls with a prefix (67 E8) and calls through a slot (FF 15) are switched in
 * the same way.
 *
 * WHAT YOU PROMISE, for every address that you give:
 *
 *   A call.        An instruction begins there, which is a call, or was one that callpatch has switched off. Where it leads is something
 *                  that may be left out: a hook. No thread jumps or returns into the middle of it.
 *   Flags.         Nobody needs the flags behind it that were there before it. That is so for every call that a compiler has made.
 *   Callees.       What the call leads to stays there for as long as the call can be on, and as a thread may be inside.
 *   Lifetime.      The code stays mapped. Before it is unmapped (dlclose, munmap), call callpatch_forget.
 *   Ownership.     Nobody else writes to the call, debuggers excepted: a breakpoint that is found there is reported, and stays.
 *
 * Functions return true if they did what they say. Otherwise nothing has changed, except where the message says so, and
 * callpatch_last_error() tells why. They may be called from any thread, but not from a signal handler. A forked child switches calls for
 * itself; one of _Fork or of the bare system call, which run no handlers, shares islands with its parent and must not.
 *
 * The environment chooses how text is made writable and how threads are made to notice: see the keys WORDPATCH_ACCESS and
 * WORDPATCH_BARRIER in wordpatch.h. This library holds all of wordpatch: link one of the two.
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
 * Switches the call at address on. It leads to what lies offset bytes behind the instruction's end, as its displacement says: for a
 * call of five bytes, offset = callee - (address + 5). For a call through a slot that is the slot.
 *
 * If the call led elsewhere before, it is off for as long as a barrier takes (some ten microseconds), and then leads there. If it
 * leads there already, this is a load and a store.
 */
bool callpatch_activate_call(void *address, int32_t offset);

/* Switches the call at address off. A thread that is inside the callee goes on there until it returns. */
bool callpatch_deactivate_call(void *address);

/* Forgets all calls in [address, address + len), in the state that they are in. Call it before code is unmapped. */
void callpatch_forget(void *address, size_t len);

/*
 * Why the latest function that failed on this thread did so: one line, naming address and remedy; empty before the first. Valid
 * until the next failure on this thread.
 */
const char *callpatch_last_error(void);

#ifdef __cplusplus
}
#endif

#endif

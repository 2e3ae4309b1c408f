/*
 * fastinst: probes in this very process, switched on and off in place while all threads run.
 *
 * A probe is a call that the compiler has put at the beginning or at an end of a function: build the program, or the
 * parts of it that are of interest, with -finstrument-functions, and link libfastinst.so. fastinst_start() finds all of
 * them and switches them off, which costs one instruction of five bytes at each. fastinst_activate() has a function of
 * yours called at one of them from then on, by one store of one byte.
 *
 * Functions return true if they did what they say; otherwise fastinst_last_error() tells why. They may be called from
 * any thread, but not from a signal handler. Callbacks and functions that callbacks call may be instrumented: probes
 * inside of them are passed over.
 *
 * Licensed under MIT or Apache-2.0, at your option.
 */
#ifndef FASTINST_H
#define FASTINST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of a probe. Probes are numbered from zero in the order of discovery. */
typedef uint32_t fastinst_probe;

/* What is called by an active probe. It has to return: not by longjmp or an exception. */
typedef void (*fastinst_callback)(fastinst_probe probe, void *function, void *call_site);

/* What is known of a probe. The strings live until the callback that was given them returns. */
typedef struct fastinst_info {
    fastinst_probe probe;
    bool is_exit;              /* an end of the function, not its beginning */
    void *address;             /* where the probe is */
    void *function_address;    /* the function's entry; null while nobody knows */
    const char *function;      /* its name as people write it */
    const char *symbol;        /* the name in the symbol table */
    const char *module;        /* the file of the program or library */
    const char *file;          /* the source file; null without debug information */
    uint32_t line;             /* its line; 0 without */
} fastinst_info;

/* What is called for every probe that is found. */
typedef void (*fastinst_discovery)(const fastinst_info *probe, void *data);

/* Finds the probes of everything that is loaded. Call it first; again it does nothing. */
bool fastinst_start(void);

/* Looks for libraries that were loaded since: only needed without a callback, which has them looked for. */
bool fastinst_scan(void);

/*
 * Calls `discovery` for every probe that is known, now, and for every one that is found later: while a library is
 * loaded, on the thread that loads it and before code of it runs; where the loader does not tell (musl's does not), by
 * fastinst_scan.
 */
bool fastinst_register_callback(fastinst_discovery discovery, void *data);

/* How many probes there are. */
uint32_t fastinst_count(void);

/*
 * Switches a probe on, to call `callback`; one that is on already changes from one function to the other without a gap.
 */
bool fastinst_activate(fastinst_probe probe, fastinst_callback callback);

/* Switches a probe off. A thread that is in the callback stays there until it returns. */
bool fastinst_deactivate(fastinst_probe probe);

/* Whether a probe is on. */
bool fastinst_is_active(fastinst_probe probe);

/* The entry of a function and all of its exits, together. */
bool fastinst_enable_function(void *function, fastinst_callback enter, fastinst_callback exit);
bool fastinst_disable_function(void *function);

/*
 * The probes of functions that a pattern names: a glob ("parse_*"), a regular expression ("/^std::/"), a library
 * ("@libfoo*") or a source file ("main.c:"), or functions of so many bytes ("size<64"). Writes at most `room` numbers,
 * and returns how many there are; -1 if the pattern is none.
 */
int64_t fastinst_select(const char *pattern, fastinst_probe *probes, size_t room);

/* Edits that are made together. fastinst_commit makes them, and frees the batch. */
typedef struct fastinst_batch fastinst_batch;
fastinst_batch *fastinst_batch_new(void);
void fastinst_batch_activate(fastinst_batch *batch, fastinst_probe probe, fastinst_callback callback);
void fastinst_batch_deactivate(fastinst_batch *batch, fastinst_probe probe);
bool fastinst_commit(fastinst_batch *batch);

/*
 * Code that a runtime makes while the program runs (a just-in-time compiler's, a Wasm engine's), in the profile of the
 * preload library.
 *
 * The runtime looks for fastinst_register_code once, by dlsym(RTLD_DEFAULT, ...): absent means that there is no
 * library. It switches its probes itself, when `set` says so, and where one is on its machine code calls
 * fastinst_code_enter and fastinst_code_leave.
 */
typedef struct {
    uint32_t size;             /* sizeof(fastinst_code_function) */
    const char *name, *file;   /* mangled or not; the source file, or null */
    uint32_t line;             /* 0 if it is not known */
    const void *code;          /* in no file that the loader has mapped */
    size_t length;
} fastinst_code_function;

typedef struct {
    uint32_t size;             /* sizeof(fastinst_code) */
    const char *module;
    const fastinst_code_function *functions;
    size_t count;
    /*
     * Switches the probes of `which` functions, `n` places in `functions`, to a state: 0 off, 1 count (enter is called,
     * or `counts` tells), 2 time (enter and leave are called). Returns false if it does not. Called by a thread of the
     * library's, with no lock of the library held, also before fastinst_register_code returns: so the caller of that
     * holds no lock that `set` takes. It registers and unregisters nothing.
     */
    bool (*set)(void *self, const uint32_t *which, size_t n, int state);
    void *self;
    /*
     * Tells how often each of `which` functions was entered in state 1, all threads together, since it was registered;
     * null if fastinst_code_enter is called then. An event costs 10 ns and more, and a counter in the machine code one:
     * a runtime whose functions are short counts itself. Called as `set`, and by fastinst_unregister_code.
     */
    void (*counts)(void *self, const uint32_t *which, size_t n, uint64_t *entries);
} fastinst_code;

/*
 * Registers code, and returns when its probes are as the profiler wants them; 0 if it is refused. Everything but `self`
 * is copied.
 */
uint64_t fastinst_register_code(const fastinst_code *code);

/*
 * Takes it back: `set` is not called any more when this returns, and no other thread is in an event of it. The
 * functions stay in the profile. False if there is no such registration, or a thread has not come out of it within a
 * second (of `set`: within twenty).
 */
bool fastinst_unregister_code(uint64_t registration);

/*
 * The number of a function's probe, for the two below; UINT32_MAX if there is none. It is none of those that are
 * activated above.
 */
uint32_t fastinst_code_probe(uint64_t registration, uint32_t function);

/*
 * The function's code also lies there, in no other code: another tier of it, or another variant. Without this, the
 * sampling clock finds no function there, and calls from there have no caller. To be called before the code runs;
 * unregistering takes it back.
 */
bool fastinst_code_also(uint64_t registration, uint32_t function, const void *code, size_t length);

/*
 * `frame` is where the function's return address lies on the calling thread's stack, in both calls: it says which call
 * it is that ends, that calls above it were left (a frame that is unwound needs no leave), and who has called. Callable
 * in signal handlers.
 */
void fastinst_code_enter(uint32_t probe, const void *frame);
void fastinst_code_leave(uint32_t probe, const void *frame);

/*
 * Why the latest function that failed on this thread did so: one line; empty before the first. Valid until the next
 * failure.
 */
const char *fastinst_last_error(void);

#ifdef __cplusplus
}
#endif

#endif

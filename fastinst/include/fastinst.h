/*
 * fastinst: probes in this process, switched on and off in place while all threads run.
 *
 * A probe is a call that the compiler has inserted at the beginning or an end of a function. Build the program, or the
 * relevant parts of it, with -finstrument-functions, and link libfastinst.so. fastinst_start() finds all probes and
 * switches them off; a probe that is off costs one instruction of five bytes. fastinst_activate() makes a probe call a
 * function of yours, by one store of one byte.
 *
 * Functions return true on success; otherwise fastinst_last_error() gives the reason. They may be called from any
 * thread, but not from a signal handler. Callbacks and functions that they call may be instrumented: their probes do
 * nothing while a callback runs.
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

/* Called by an active probe. It must return normally, not by longjmp or an exception. */
typedef void (*fastinst_callback)(fastinst_probe probe, void *function, void *call_site);

/* Describes a probe. The strings are valid until the callback that received them returns. */
typedef struct fastinst_info {
    fastinst_probe probe;
    bool is_exit;              /* an end of the function, not its beginning */
    void *address;             /* where the probe is */
    void *function_address;    /* the function's entry; null if unknown */
    const char *function;      /* its demangled name */
    const char *symbol;        /* the name in the symbol table */
    const char *module;        /* the file of the program or library */
    const char *file;          /* the source file; null without debug information */
    uint32_t line;             /* its line; 0 without */
} fastinst_info;

/* Called for every probe that is found. */
typedef void (*fastinst_discovery)(const fastinst_info *probe, void *data);

/* Finds the probes of all loaded modules. Call it first; further calls do nothing. */
bool fastinst_start(void);

/* Looks for libraries that were loaded since. Only needed if no callback is registered. */
bool fastinst_scan(void);

/*
 * Calls `discovery` now for every known probe, and later for every new one: while a library is loaded, on the thread
 * that loads it and before its code runs; or, if the loader gives no notification (musl's does not), in fastinst_scan.
 */
bool fastinst_register_callback(fastinst_discovery discovery, void *data);

/* Returns the number of probes. */
uint32_t fastinst_count(void);

/*
 * Switches a probe on, to call `callback`. If it is already on, its callback is replaced without a gap.
 */
bool fastinst_activate(fastinst_probe probe, fastinst_callback callback);

/* Switches a probe off. A thread that is in the callback continues there until it returns. */
bool fastinst_deactivate(fastinst_probe probe);

/* Returns whether a probe is on. */
bool fastinst_is_active(fastinst_probe probe);

/* Switch the entry and all exits of a function together. */
bool fastinst_enable_function(void *function, fastinst_callback enter, fastinst_callback exit);
bool fastinst_disable_function(void *function);

/*
 * Selects the probes of functions that match a pattern: a glob ("parse_*"), a regular expression ("/^std::/"), a
 * library ("@libfoo*"), a source file ("main.c:"), or a size in bytes ("size<64"). Writes at most `room` probe numbers,
 * and returns how many match; -1 if the pattern is invalid.
 */
int64_t fastinst_select(const char *pattern, fastinst_probe *probes, size_t room);

/* Changes that are applied together. fastinst_commit applies them and frees the batch. */
typedef struct fastinst_batch fastinst_batch;
fastinst_batch *fastinst_batch_new(void);
void fastinst_batch_activate(fastinst_batch *batch, fastinst_probe probe, fastinst_callback callback);
void fastinst_batch_deactivate(fastinst_batch *batch, fastinst_probe probe);
bool fastinst_commit(fastinst_batch *batch);

/*
 * Code that a runtime generates (a just-in-time compiler, a Wasm engine), in the profile of the preload library.
 *
 * The runtime looks up fastinst_register_code once, with dlsym(RTLD_DEFAULT, ...). If it is absent, the library is not
 * loaded. The runtime switches its probes itself when `set` is called; where a probe is on, its machine code calls
 * fastinst_code_enter and fastinst_code_leave.
 */
typedef struct {
    uint32_t size;             /* sizeof(fastinst_code_function) */
    const char *name, *file;   /* mangled or not; the source file, or null */
    uint32_t line;             /* 0 if unknown */
    const void *code;          /* not in a file that the loader has mapped */
    size_t length;
} fastinst_code_function;

typedef struct {
    uint32_t size;             /* sizeof(fastinst_code) */
    const char *module;
    const fastinst_code_function *functions;
    size_t count;
    /*
     * Switches the probes of functions to a state. `which` has `n` indices into `functions`. States: 0 off, 1 count
     * (enter is called, or `counts` reports), 2 time (enter and leave are called). Returns false on failure. A thread
     * of the library calls it, without holding a lock of the library, possibly before fastinst_register_code returns:
     * the caller of fastinst_register_code must not hold a lock that `set` takes. `set` must not register or unregister
     * code.
     */
    bool (*set)(void *self, const uint32_t *which, size_t n, int state);
    void *self;
    /*
     * Reports how often each of the `which` functions was entered in state 1, by all threads, since it was registered.
     * Null if fastinst_code_enter is called in that state. An event costs 10 ns and more, a counter in the machine code
     * 1 ns, so a runtime with short functions should count itself. Called like `set`, and by fastinst_unregister_code.
     */
    void (*counts)(void *self, const uint32_t *which, size_t n, uint64_t *entries);
} fastinst_code;

/*
 * Registers code, and returns once its probes are in the state that the profiler wants. Returns 0 if it is refused.
 * Everything but `self` is copied.
 */
uint64_t fastinst_register_code(const fastinst_code *code);

/*
 * Unregisters code. When this returns, `set` is not called any more, and no other thread is in an event of the code.
 * The functions stay in the profile. Returns false if the registration is unknown, or if a thread has not left an event
 * within a second (`set`: within twenty).
 */
bool fastinst_unregister_code(uint64_t registration);

/*
 * Returns the number of a function's probe, for fastinst_code_enter and fastinst_code_leave; UINT32_MAX if there is
 * none. It is not a fastinst_probe.
 */
uint32_t fastinst_code_probe(uint64_t registration, uint32_t function);

/*
 * Adds another range of code to a function: another tier or variant, which belongs to no other function. Without this,
 * the sampling clock finds no function there, and calls from there have no caller. Call it before the code runs;
 * unregistering removes the range.
 */
bool fastinst_code_also(uint64_t registration, uint32_t function, const void *code, size_t length);

/*
 * In both calls `frame` is the address of the function's return address on the calling thread's stack. It identifies
 * the call that ends and its caller, and shows that calls above it have ended (an unwound frame needs no leave). Both
 * may be called in signal handlers.
 */
void fastinst_code_enter(uint32_t probe, const void *frame);
void fastinst_code_leave(uint32_t probe, const void *frame);

/*
 * Returns the reason of the latest failure on this thread, in one line; empty before the first. Valid until the next
 * failure.
 */
const char *fastinst_last_error(void);

#ifdef __cplusplus
}
#endif

#endif

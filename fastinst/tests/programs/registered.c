/* A runtime: functions that it makes while it runs, registered with the preload library where that is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/fastinst.h"

enum { FUNCTIONS = 3, ROOM = 64, VARIANT = 3 << 12 };
static const char *const NAMES[FUNCTIONS] = {"outer", "inner", "thrower"};

static uint64_t (*register_code)(const fastinst_code *);
static bool (*unregister_code)(uint64_t);
static bool (*code_also)(uint64_t, uint32_t, const void *, size_t);
static uint32_t (*code_probe)(uint64_t, uint32_t);
static void (*code_enter)(uint32_t, const void *);
static void (*code_leave)(uint32_t, const void *);
static const char *(*last_error)(void);

typedef void made(void);
static uint8_t *code;
static uint32_t probes[FUNCTIONS];
static volatile int states[FUNCTIONS];
static volatile int highest;
static volatile uint64_t entered[FUNCTIONS];
/* In state 1, where the runtime counts itself. */
static bool counts_itself;
static volatile uint64_t counted[FUNCTIONS];
static jmp_buf back;

static made *function(int which) { return (made *)(code + which * ROOM); }

/* What all made functions call. */
static void body(int which, void *frame) {
    int state = states[which];
    if (state == 1 && counts_itself)
        __atomic_fetch_add(&counted[which], 1, __ATOMIC_RELAXED);
    else if (state)
        code_enter(probes[which], frame);
    __atomic_fetch_add(&entered[which], 1, __ATOMIC_RELAXED);
    switch (which) {
    case 0:
        function(1)();
        function(1)();
        break;
    case 2:
        longjmp(back, 1);
    }
    if (state == 2)
        code_leave(probes[which], frame);
}

/* lea rsi, [rsp]; mov edi, which; push rbp; mov rbp, rsp; mov rax, body; call rax; pop rbp; ret */
static void make_at(uint8_t *at, int which) {
    void (*call)(int, void *) = body;
    memcpy(at, "\x48\x8d\x34\x24\xbf", 5);
    memcpy(at + 5, &which, 4);
    memcpy(at + 9, "\x55\x48\x89\xe5\x48\xb8", 6);
    memcpy(at + 15, &call, 8);
    memcpy(at + 23, "\xff\xd0\x5d\xc3", 4);
}

static void make(int which) { make_at(code + which * ROOM, which); }

/* A loop of the made code's own: mov ecx, n; dec ecx; jnz; ret. */
static void make_spinner(uint8_t *at) {
    memcpy(at, "\xb9\x00\x00\x00\x20\xff\xc9\x75\xfc\xc3", 10);
}

static bool set(void *self, const uint32_t *which, size_t n, int state) {
    if (self != (void *)states)
        abort();
    for (size_t i = 0; i < n; i++)
        states[which[i]] = state;
    if (state > highest)
        highest = state;
    return true;
}

static void counts(void *self, const uint32_t *which, size_t n, uint64_t *entries) {
    if (self != (void *)states)
        abort();
    for (size_t i = 0; i < n; i++)
        entries[i] = counted[which[i]];
}

static uint64_t enroll(const char *module, const char *const *names, int count) {
    fastinst_code_function functions[FUNCTIONS];
    for (int i = 0; i < count; i++)
        functions[i] = (fastinst_code_function){
            sizeof functions[i], names[i], "made.src", 10 + i, code + i * ROOM, 27};
    memset((void *)counted, 0, sizeof counted);
    fastinst_code all = {
        sizeof all, module, functions, count, set, (void *)states, counts_itself ? counts : NULL};
    uint64_t number = register_code(&all);
    memset(functions, 0xff, sizeof functions);
    if (!number) {
        fprintf(stderr, "refused: %s\n", last_error());
        exit(3);
    }
    for (int i = 0; i < count; i++)
        probes[i] = code_probe(number, i);
    return number;
}

static void *many(void *times) {
    for (long i = 0; i < (long)times; i++)
        function(0)();
    return NULL;
}

static void refused(const char *what, fastinst_code_function function, fastinst_code all) {
    all.functions = &function;
    printf("%s: %s\n", what, register_code(&all) ? "taken" : last_error());
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "calls";
    long times = argc > 2 ? atol(argv[2]) : 1000;
    counts_itself = argc > 3 && strcmp(argv[3], "itself") == 0;
    code = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < FUNCTIONS; i++)
        make(i);
    register_code = dlsym(RTLD_DEFAULT, "fastinst_register_code");
    if (register_code) {
        unregister_code = dlsym(RTLD_DEFAULT, "fastinst_unregister_code");
        code_probe = dlsym(RTLD_DEFAULT, "fastinst_code_probe");
        code_also = dlsym(RTLD_DEFAULT, "fastinst_code_also");
        code_enter = dlsym(RTLD_DEFAULT, "fastinst_code_enter");
        code_leave = dlsym(RTLD_DEFAULT, "fastinst_code_leave");
        last_error = dlsym(RTLD_DEFAULT, "fastinst_last_error");
        if (strcmp(mode, "refused") == 0) {
            fastinst_code_function good = {sizeof good, "f", NULL, 0, code, 27};
            fastinst_code all = {sizeof all, "bad", NULL, 1, set, (void *)states, NULL};
            fastinst_code_function other = good;
            printf("null: %s\n", register_code(NULL) ? "taken" : last_error());
            other.length = 0;
            refused("empty", other, all);
            other = good, other.code = NULL;
            refused("nowhere", other, all);
            other = good, other.code = (const void *)printf;
            refused("elsewhere", other, all);
            other = good, other.size = 8;
            refused("small", other, all);
            fastinst_code bad = all;
            bad.set = NULL;
            refused("fixed", good, bad);
            bad = all, bad.size = 1;
            refused("old", good, bad);
            bad = all, bad.count = 0;
            refused("none", good, bad);
            refused("good", good, all);
            refused("again", good, all);
            printf("stranger: %s\n", code_also(77, 0, code + VARIANT, 27) ? "taken" : last_error());
            printf("missing: %s\n", code_also(2, 1, code + VARIANT, 27) ? "taken" : last_error());
            printf("hollow: %s\n", code_also(2, 0, code + VARIANT, 0) ? "taken" : last_error());
            printf("inside: %s\n", code_also(2, 0, code + 8, 27) ? "taken" : last_error());
            printf("variant: %s\n", code_also(2, 0, code + VARIANT, 27) ? "taken" : last_error());
            bool is_taken = code_also(2, 0, code + VARIANT + 26, 27);
            printf("twice: %s\n", is_taken ? "taken" : last_error());
            printf("unknown: %s\n", unregister_code(77) ? "taken" : last_error());
            printf("%x\n", code_probe(77, 0));
            code_enter(UINT32_MAX, &mode), code_leave(UINT32_MAX, &mode), code_enter(0, &mode), code_leave(0, NULL);
            return 0;
        }
    }
    if (strcmp(mode, "spin") == 0)
        make_spinner(code);
    uint64_t number = register_code ? enroll("made.wasm", NAMES, FUNCTIONS) : 0;
    if (strcmp(mode, "calls") == 0) {
        many((void *)times);
    } else if (strcmp(mode, "threads") == 0) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, many, (void *)times);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    } else if (strcmp(mode, "jumps") == 0) {
        for (volatile long i = 0; i < times; i++) {
            if (!setjmp(back))
                function(2)();
            function(0)();
        }
    } else if (strcmp(mode, "spin") == 0) {
        function(0)();
        function(0)();
    } else if (strcmp(mode, "variants") == 0) {
        /* Tiers of `outer` and `inner`, here and there; one of them spins. */
        uint8_t *tiers[] = {code + VARIANT, code + VARIANT + ROOM, code + 4 * VARIANT};
        make_at(tiers[0], 0), make_at(tiers[1], 1), make_spinner(tiers[2]);
        int taken = 3;
        if (number) {
            taken = code_also(number, 1, tiers[1], 27);
            taken += code_also(number, 0, tiers[0], 27) + code_also(number, 0, tiers[2], 10);
        }
        printf("variants: %d\n", taken);
        many((void *)times);
        for (long i = 0; i < times; i++)
            ((made *)tiers[0])(), ((made *)tiers[1])();
        ((made *)tiers[2])(), ((made *)tiers[2])();
    } else if (strcmp(mode, "again") == 0) {
        static const char *const OTHERS[] = {"second", "third"};
        many((void *)times);
        printf("taken back: %d\n", number ? unregister_code(number) : 1);
        if (number)
            enroll("other.wasm", OTHERS, 2);
        many((void *)(2 * times));
    } else if (strcmp(mode, "churn") == 0) {
        for (int i = 0; i < 200; i++) {
            many((void *)times);
            if (number && !unregister_code(number))
                return 4;
            if (number)
                number = enroll("made.wasm", NAMES, FUNCTIONS);
        }
    } else if (strcmp(mode, "replace") == 0) {
        /* The new functions have the old ones' addresses; the old ones have spun. */
        static const char *const OTHERS[] = {"second", "third"};
        make_spinner(code);
        function(0)(), function(0)();
        if (number && !unregister_code(number))
            return 4;
        make(0);
        if (number)
            enroll("made.wasm", OTHERS, 2);
        many((void *)times);
    } else if (strcmp(mode, "fork") == 0) {
        many((void *)times);
        pid_t child = fork();
        many((void *)(child ? times : 3 * times));
        if (child)
            waitpid(child, NULL, 0);
    }
    for (int i = 0; i < FUNCTIONS; i++)
        printf("%s %lu\n", NAMES[i], (unsigned long)entered[i]);
    fprintf(stderr, "highest %d\n", highest);
    return 0;
}

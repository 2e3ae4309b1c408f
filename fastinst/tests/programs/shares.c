/*
 * Burns processor time in known parts. "split": three quarters in `three`, a quarter in `one`, which calls nothing. "library": about half of
 * it in the C library, called by `fills`; "read": in the kernel, called by `reads`; both print the share of `one`, which is in neither. "threads": four threads, each with
 * both. "inlined": as split, in functions that are inlined into main. "many": 2,000 threads. "brief": 20,000 threads of some
 * hundred microseconds, two at a time.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef TURNS
#define TURNS 120000000
#endif

#define BUFFER ((size_t)1 << 20)

static volatile unsigned long sink;

static inline __attribute__((always_inline, no_instrument_function)) void spin(long turns) {
    unsigned long x = sink | 1;
    for (long i = 0; i < turns; i++)
        x = x * 6364136223846793005ul + (unsigned long)i;
    sink = x;
}

__attribute__((noinline)) void one(long turns) {
    spin(turns);
}

__attribute__((noinline)) void three(long turns) {
    spin(turns);
    spin(turns);
    spin(turns);
}

static inline __attribute__((always_inline)) void inlined_one(long turns) {
    spin(turns);
}

static inline __attribute__((always_inline)) void inlined_three(long turns) {
    spin(turns);
    spin(turns);
    spin(turns);
}

__attribute__((noinline)) void fills(char *to, size_t size, long times) {
    for (long i = 0; i < times; i++) {
        memset(to, (int)i, size);
        sink += (unsigned long)to[i % (long)size];
    }
}

__attribute__((noinline)) void reads(int file, char *to, size_t size, long times) {
    for (long i = 0; i < times; i++)
        if (read(file, to, size) < 0)
            exit(9);
}

__attribute__((no_instrument_function)) static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

__attribute__((noinline)) void *worker(void *part) {
    for (int i = 0; i < 20; i++) {
        three((long)part);
        one((long)part);
    }
    return NULL;
}

__attribute__((noinline)) void *request(void *part) {
    three((long)part);
    one((long)part);
    return NULL;
}

static int zero;

__attribute__((no_instrument_function)) static void fills_for(char *buffer, double until) {
    while (now(CLOCK_THREAD_CPUTIME_ID) < until)
        fills(buffer, BUFFER, 4);
}

__attribute__((no_instrument_function)) static void reads_for(char *buffer, double until) {
    while (now(CLOCK_THREAD_CPUTIME_ID) < until)
        reads(zero, buffer, BUFFER, 2);
}

/*
 * Spends as long in `other` as in `one`, by turns, and says what `one` has taken: the last call of `other` in a turn takes as long as it
 * takes. Turns differ in length, by chance, lest a clock that ticks evenly keep step with them: lengths that come again do.
 */
__attribute__((no_instrument_function)) static void alternate(void (*other)(char *, double), char *buffer) {
    double ones = 0, all = 0;
    unsigned long chance = 1;
    for (int i = 0; i < 200; i++) {
        double begin = now(CLOCK_THREAD_CPUTIME_ID);
        chance = chance * 6364136223846793005ul + 1442695040888963407ul;
        one(TURNS / 160 / 512 * (256 + (long)(chance >> 54) * 3 / 2));
        double middle = now(CLOCK_THREAD_CPUTIME_ID);
        other(buffer, 2 * middle - begin);
        ones += middle - begin;
        all += now(CLOCK_THREAD_CPUTIME_ID) - begin;
    }
    fprintf(stderr, "one: %.4f\n", ones / all);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "split";
    static char buffer[BUFFER];
    zero = open("/dev/zero", O_RDONLY);
    if (!strcmp(what, "split"))
        worker((void *)(TURNS / 8));
    else if (!strcmp(what, "inlined"))
        for (int i = 0; i < 20; i++) {
            inlined_three(TURNS / 8);
            inlined_one(TURNS / 8);
        }
    else if (!strcmp(what, "library"))
        alternate(fills_for, buffer);
    else if (!strcmp(what, "read"))
        alternate(reads_for, buffer);
    else if (!strcmp(what, "threads") || !strcmp(what, "many")) {
        int many = !strcmp(what, "many"), count = many ? 2000 : 4;
        pthread_t *threads = calloc((size_t)count, sizeof *threads);
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 64 << 10);
        for (int i = 0; i < count; i++)
            if (pthread_create(&threads[i], &small, worker, (void *)(long)(many ? 500 : TURNS / 32)))
                return 8;
        for (int i = 0; i < count; i++)
            pthread_join(threads[i], NULL);
    }
    else if (!strcmp(what, "brief"))
        for (int i = 0; i < 10000; i++) {
            pthread_t pair[2];
            for (int k = 0; k < 2; k++)
                if (pthread_create(&pair[k], NULL, request, (void *)(long)(TURNS / 2400)))
                    return 8;
            for (int k = 0; k < 2; k++)
                pthread_join(pair[k], NULL);
        }
    printf("%d\n", zero >= 0);
    return 0;
}

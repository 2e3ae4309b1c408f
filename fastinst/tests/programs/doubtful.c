/*
 * Functions whose time hooks hide, or do not: `hops` takes some nanoseconds and waits for memory,
 * `compares` is called back by the C library thousands of times for each call of `sorts`, `spins`
 * takes milliseconds and calls nothing. Prints what a call of each takes without hooks, in
 * nanoseconds of processor time, on standard error: each has a twin that no hook is in.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PLACES (1u << 18)
#define ITEMS 2000
#define HOPS 400000
#define SORTS 40
#define SPINS 5

static uint32_t ring[PLACES];
static volatile uint64_t sink;

#define BARE __attribute__((noinline, no_instrument_function))
#define HOOKED __attribute__((noinline))

BARE static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

#define PAIR(name, parameters, body)  \
    HOOKED uint64_t name parameters body \
    BARE uint64_t name##_bare parameters body

PAIR(hops, (uint32_t at), { return ring[at]; })
PAIR(spins, (uint32_t turns), {
    uint64_t x = turns;
    for (uint32_t i = 0; i < turns; i++)
        x = x * 6364136223846793005u + i;
    return x;
})

static uint32_t items[ITEMS];

BARE static void shuffle(void) {
    uint64_t x = 1;
    for (int i = 0; i < ITEMS; i++)
        items[i] = (uint32_t)((x = x * 6364136223846793005u + 1442695040888963407u) >> 40);
}

HOOKED int compares(const void *a, const void *b) {
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}
BARE int compares_bare(const void *a, const void *b) {
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}
HOOKED void sorts(void) {
    qsort(items, ITEMS, sizeof *items, compares);
    sink += items[0];
}
BARE void sorts_bare(void) {
    qsort(items, ITEMS, sizeof *items, compares_bare);
    sink += items[0];
}

#define TIMED(name, times, act)                         \
    do {                                                \
        double all = 0;                                 \
        for (int i = 0; i < (times); i++) {             \
            shuffle();                                  \
            double begin = now();                       \
            act;                                        \
            all += now() - begin;                       \
        }                                               \
        fprintf(stderr, name ": %.1f\n", all / (times)); \
    } while (0)

BARE int main(void) {
    for (uint32_t i = 0; i < PLACES; i++)
        ring[i] = (i * 1664525u + 1013904223u) % PLACES;
    uint64_t at = 0;
    double begin = now();
    for (int i = 0; i < HOPS; i++)
        at = hops_bare((uint32_t)at);
    fprintf(stderr, "hops: %.1f\n", (now() - begin) / HOPS);
    for (int i = 0; i < HOPS; i++)
        at = hops((uint32_t)at);
    TIMED("sorts", SORTS, sorts_bare());
    for (int i = 0; i < SORTS; i++) {
        shuffle();
        sorts();
    }
    TIMED("spins", SPINS, sink += spins_bare(4000000));
    for (int i = 0; i < SPINS; i++)
        sink += spins(4000000);
    sink += at;
    return 0;
}

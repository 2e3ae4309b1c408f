/* Functions that take a known number of turns, each of which waits for the one before; so what a call takes alone is what it takes here.
   `burn ROUNDS [PERCENT]`: calls of all of them, `planted` with so much of its usual turns.
   `burn time`: how long a call of each takes, alone, in nanoseconds of processor time. */
#include "work.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TURN(x) ((x) * 6364136223846793005u + 1442695040888963407u)
#define BURN(name, turns)                                    \
    __attribute__((noinline)) static uint64_t name(uint64_t x) { \
        for (int i = 0; i < (turns); i++) x = TURN(x);       \
        return x;                                            \
    }

static int planted_turns = 600;

BURN(burn_2, 2)
BURN(burn_8, 8)
BURN(burn_30, 30)
BURN(burn_120, 120)
BURN(burn_1000, 1000)
BURN(burn_10000, 10000)
BURN(burn_100000, 100000)
BURN(planted, planted_turns)

/* What each takes of a round, in turns, so that all take about the same. */
enum { SHARE = 100000 };

#define REPEAT(count, call) \
    for (int i = 0; i < (count); i++) x = call(x);

__attribute__((noinline)) static uint64_t all(uint64_t x) {
    REPEAT(SHARE / 2 / 2, burn_2)
    REPEAT(SHARE / 8, burn_8)
    REPEAT(SHARE / 30, burn_30)
    REPEAT(SHARE / 120, burn_120)
    REPEAT(SHARE / 1000, burn_1000)
    REPEAT(SHARE / 10000, burn_10000)
    REPEAT(SHARE / 100000, burn_100000)
    REPEAT(SHARE / 600, planted)
    return x;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* The least of some loops: whatever else the machine does only adds. */
#define TIME(name, turns)                                            \
    {                                                                \
        int calls = 4000000 / (turns);                               \
        double least = 1e18, empty = 1e18;                           \
        for (int round = 0; round < 12; round++) {                   \
            double begin = now();                                    \
            REPEAT(calls, name)                                      \
            double middle = now();                                   \
            for (int i = 0; i < calls; i++) __asm__ volatile("" : "+r"(x)); \
            double end = now();                                      \
            if (middle - begin < least) least = middle - begin;      \
            if (end - middle < empty) empty = end - middle;          \
        }                                                            \
        printf("%s %.3f\n", #name, (least - empty) / calls);        \
    }

static uint64_t tell_times(void) {
    uint64_t x = 1;
    TIME(burn_2, 2)
    TIME(burn_8, 8)
    TIME(burn_30, 30)
    TIME(burn_120, 120)
    TIME(burn_1000, 1000)
    TIME(burn_10000, 10000)
    TIME(burn_100000, 100000)
    TIME(planted, 600)
    return x;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "time")) {
        return tell_times() == 0;
    }
    uint64_t x = 1;
    int count = rounds(argc, argv, 8000);
    if (argc > 2) planted_turns = planted_turns * atoi(argv[2]) / 100;
    for (int round = 0; round < count; round++) x = all(x);
    printf("%016lx\n", (unsigned long)x);
    return 0;
}

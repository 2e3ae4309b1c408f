/* Functions that are inlined into others, once and twice deep, and whose copy of their own is
 * called, too. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static long find(long x) {
    long sum = 0;
    for (long turn = 0; turn < x % 7 + 3; turn++) sum += turn * x;
    return sum;
}

static inline __attribute__((always_inline)) long twice(long x) { return find(x) + find(x + 1); }

static inline __attribute__((always_inline)) long deep(long x) { return twice(x) + 1; }

__attribute__((noinline)) static long reads(long n) {
    long sum = 0;
    for (long x = 0; x < n; x++) sum += deep(x) + (x % 5 ? 0 : twice(x));
    return sum;
}

static inline long shared(long x) { return find(x) * 3; }

__attribute__((noinline)) static long here(long x) { return shared(x) + 1; }

long (*volatile through)(long) = shared;

__attribute__((noinline)) static long there(long x) { return through(x) + 2; }

/* Ends in two places, one of them behind its container's end. */
static inline __attribute__((always_inline)) long looks(long x) {
    for (long turn = 0; turn < 3; turn++)
        if (find(turn + x) % 2) return turn;
    return -1;
}

__attribute__((noinline)) static long either(long x) {
    long found = looks(x);
    if (__builtin_expect(found >= 0, 1)) return found;
    puts("none");
    return find(x);
}

int main(void) {
    long sum = reads(200);
    for (long x = 0; x < 40; x++) sum += here(x) + there(x) + either(x);
    printf("%ld\n", sum);
    return 0;
}

/* Four thousand functions without hooks. A thread calls one before any has a probe; then all are called until the code
   of most has changed, if a library is preloaded, or some time has passed (not with ONCE); then each ten times more. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FUNCTION(n) \
    __attribute__((noinline)) uint64_t f##n(uint64_t x) { return x * (2 * n##ull + 1) + (x >> 7); }
#define EACH4(m, n) m(n##0) m(n##1) m(n##2) m(n##3)
#define EACH16(m, n) EACH4(m, n##0) EACH4(m, n##1) EACH4(m, n##2) EACH4(m, n##3)
#define EACH64(m, n) EACH16(m, n##0) EACH16(m, n##1) EACH16(m, n##2) EACH16(m, n##3)
#define EACH256(m, n) EACH64(m, n##0) EACH64(m, n##1) EACH64(m, n##2) EACH64(m, n##3)
#define EACH1024(m, n) EACH256(m, n##0) EACH256(m, n##1) EACH256(m, n##2) EACH256(m, n##3)
#define ALL(m) EACH1024(m, 1) EACH1024(m, 2) EACH1024(m, 3) EACH1024(m, 4)
#define NAME(n) f##n,

ALL(FUNCTION)

static uint64_t (*const functions[])(uint64_t) = {ALL(NAME)};
enum { COUNT = sizeof functions / sizeof *functions };
enum { SIZE = 12 };
static volatile unsigned char before[COUNT][SIZE];

static uint64_t round_of(uint64_t x) {
    for (int i = 0; i < COUNT; i++) x = functions[i](x);
    return x;
}

static int is_changed(int i) {
    const volatile unsigned char *code = (const void *)functions[i];
    for (int byte = 0; byte < SIZE; byte++)
        if (code[byte] != before[i][byte]) return 1;
    return 0;
}

static int changed(void) {
    int sum = 0;
    for (int i = 0; i < COUNT; i++) sum += is_changed(i);
    return sum;
}

int main(void) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < COUNT; i++)
        for (int byte = 0; byte < SIZE; byte++) before[i][byte] = ((const unsigned char *)functions[i])[byte];
    uint64_t x = round_of(1), y = x;
#ifndef ONCE
    if (getenv("LD_PRELOAD")) do {
        for (int i = 0; i < 100; i++) y = round_of(y);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (changed() < COUNT * 3 / 4 && now.tv_sec - start.tv_sec < 60);
#endif
    for (int i = 0; i < 10; i++) x = round_of(x);
    printf("%016llx\n", (unsigned long long)x);
    return y == 1;
}

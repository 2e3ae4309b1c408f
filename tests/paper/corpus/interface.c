/* Asks its host for the time again and again, and computes in between.
 *
 *   interface CALLS TURNS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    long calls = argc > 1 ? atol(argv[1]) : 1000, turns = argc > 2 ? atol(argv[2]) : 0;
    uint64_t last = 0, chance = 88172645463325252u;
    for (long call = 0; call < calls; call++) {
        struct timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        uint64_t now = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
        if (now < last) return 1;
        last = now;
        for (long turn = 0; turn < turns; turn++)
            chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
    }
    printf("%ld %016llx\n", calls, (unsigned long long)chance);
    return 0;
}

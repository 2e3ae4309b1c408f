/* Sixteen threads, however many processors there are: calls of some nanoseconds, of a microsecond and of a tenth of a millisecond. */
#include "work.h"
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 16 };

struct job {
    pthread_t thread;
    int rounds;
    uint64_t sum;
};

__attribute__((noinline)) static uint64_t step(uint64_t x) { return (x ^ x >> 27) * 0x9e3779b97f4a7c15u; }

__attribute__((noinline)) static uint64_t chew(uint64_t x) {
    for (int i = 0; i < 20; i++) x = step(x);
    for (int i = 0; i < 300; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

__attribute__((noinline)) static uint64_t gulp(uint64_t x) {
    for (int i = 0; i < 50000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

__attribute__((noinline)) static uint64_t meal(uint64_t x) {
    for (int i = 0; i < 100; i++) x = chew(x);
    return gulp(x);
}

static void *dine(void *of) {
    struct job *job = of;
    for (int round = 0; round < job->rounds; round++) job->sum = meal(job->sum + 1);
    return NULL;
}

int main(int argc, char **argv) {
    struct job jobs[THREADS];
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){.rounds = rounds(argc, argv, 400), .sum = (uint64_t)i};
        if (pthread_create(&jobs[i].thread, NULL, dine, &jobs[i])) return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(jobs[i].thread, NULL);
        sum = sum * 31 + jobs[i].sum;
    }
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}

/* A server with four workers: it waits for jobs, most of which are short; a look-up now and then clears a cache, and a log is flushed
   now and then. How often everything is called follows from the jobs' numbers, whichever worker has which. */
#include "work.h"
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { WORKERS = 4, ROOM = 64, ENTRIES = 512, CACHE = 4096 };

static struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    unsigned jobs[ROOM], first, count;
} queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0};

static uint64_t table[ENTRIES];

static void nap(long nanoseconds) {
    struct timespec time = {0, nanoseconds};
    nanosleep(&time, NULL);
}

static void queue_push(unsigned job) {
    pthread_mutex_lock(&queue.lock);
    while (queue.count == ROOM) pthread_cond_wait(&queue.emptied, &queue.lock);
    queue.jobs[(queue.first + queue.count++) % ROOM] = job;
    pthread_cond_signal(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
}

static unsigned queue_pop(void) {
    pthread_mutex_lock(&queue.lock);
    while (!queue.count) pthread_cond_wait(&queue.filled, &queue.lock);
    unsigned job = queue.jobs[queue.first];
    queue.first = (queue.first + 1) % ROOM, queue.count--;
    pthread_cond_signal(&queue.emptied);
    pthread_mutex_unlock(&queue.lock);
    return job;
}

static uint64_t mix(uint64_t value) {
    value ^= value >> 31, value *= 0x9e3779b97f4a7c15u;
    return value ^ value >> 29;
}

/* Rare and slow: a millisecond or two. */
__attribute__((noinline)) static uint64_t evict_stale(uint64_t sum) {
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < CACHE; i++) sum = sum * 31 + (unsigned)i;
    return sum;
}

__attribute__((noinline)) static uint64_t lookup(unsigned job, uint64_t key) {
    uint64_t sum = key;
    for (int i = 0; i < 40; i++) sum += table[(sum + (unsigned)i * 7) % ENTRIES];
    return job % 997 == 996 ? evict_stale(sum) : sum;
}

static uint64_t parse(unsigned job) {
    uint64_t key = job;
    for (int i = 0; i < 20; i++) key = mix(key + (unsigned)i);
    return key;
}

__attribute__((noinline)) static void flush_log(void) { nap(2000000); }

__attribute__((noinline)) static uint64_t render(uint64_t sum) {
    char page[2048];
    size_t length = 0;
    for (int i = 0; i < 24; i++) length += (size_t)snprintf(page + length, sizeof page - length, "<li>%lu</li>", (unsigned long)(sum >> i));
    return checksum(sum, page, length);
}

__attribute__((noinline)) static uint64_t handle(unsigned job) {
    uint64_t sum = parse(job);
    for (int i = 0; i < 8; i++) sum = lookup(i ? 0 : job, sum);
    if (job % 4 == 0) sum = render(sum);
    if (job % 500 == 499) flush_log();
    return sum;
}

static void *serve(void *of) {
    uint64_t *sum = of;
    for (unsigned job; (job = queue_pop()) != 0;) *sum ^= handle(job);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[WORKERS];
    uint64_t sums[WORKERS] = {0}, sum = 0;
    unsigned jobs = (unsigned)rounds(argc, argv, 200000);
    for (unsigned i = 0; i < ENTRIES; i++) table[i] = mix(i);
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, serve, &sums[i])) return 1;
    for (unsigned job = 1; job <= jobs; job++) {
        queue_push(job);
        if (job % 1024 == 0) nap(1000000);
    }
    for (int i = 0; i < WORKERS; i++) queue_push(0);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        sum ^= sums[i];
    }
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}

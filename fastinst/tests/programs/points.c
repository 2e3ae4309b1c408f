/* Points of its own: with semaphores and without, in pairs, on several threads, in several places.
 * It says at its end how often each was passed. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEMAPHORE(name) __extension__ unsigned short name __attribute__((unused, section(".probes")))
SEMAPHORE(app_work__begin_semaphore);
SEMAPHORE(app_work__end_semaphore);
SEMAPHORE(app_item_semaphore);
SEMAPHORE(app_load_semaphore);
SEMAPHORE(app_ready_semaphore);
SEMAPHORE(app_last_semaphore);

static long works, items, loads, readies, lasts;

/* Behind its semaphore: nothing is prepared for tools that are not there. */
static void __attribute__((noinline)) item(int i) {
    if (app_item_semaphore > 0) {
        __atomic_fetch_add(&items, 1, __ATOMIC_RELAXED);
        STAP_PROBE2(app, item, i, i * 2);
    }
}

static void __attribute__((noinline)) begin(int i) {
    __atomic_fetch_add(&works, 1, __ATOMIC_RELAXED);
    STAP_PROBE1(app, work__begin, i);
}

static void __attribute__((noinline)) end(void) {
    STAP_PROBE(app, work__end);
}

static volatile int sink;

static void work(int i) {
    begin(i);
    for (int k = 0; k < 20; k++) {
        item(k);
        sink = k;
    }
    end();
}

static void *thread(void *count) {
    for (long i = 0; i < (long)count; i++) work((int)i);
    return NULL;
}

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 100;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, thread, (void *)count);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (long i = 0; i < count; i++) {
        loads++;
        STAP_PROBE(app, load);
        work(1);
        readies++;
        STAP_PROBE1(app, ready, "text");
        /* One name, in two places. */
        lasts++;
        if (i % 2)
            STAP_PROBE1(app, last, i);
        else
            STAP_PROBE1(app, last, -i);
    }
    printf("semaphores %d %d %d\n", app_item_semaphore, app_work__begin_semaphore, app_last_semaphore);
    printf("app:work__begin %ld\napp:work__end %ld\n", works, works);
    printf("app:item %ld\napp:load %ld\napp:ready %ld\napp:last %ld\n", items, loads, readies, lasts);
    return 0;
}

/*
 * Allocators of its own. "bump": one that gives nothing back and knows no threads; "probed": its functions have probes; "locked": one with a lock
 * that it holds while a fork goes on; "poor": one that refuses after a while; "counted": what is allocated is told at the end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef PROBED
#define APART __attribute__((noinline))
#else
#define APART __attribute__((no_instrument_function))
#endif

static char room[64 << 20] __attribute__((aligned(16)));
static size_t used, limit = sizeof room;
static long allocated;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

APART void *malloc(size_t size) {
    pthread_mutex_lock(&lock);
    size_t at = used + 16, whole = (size + 15) & ~(size_t)15;
    void *block = NULL;
    if (whole <= limit && at + whole <= limit) {
        block = room + at;
        *(size_t *)(room + at - 16) = size;
        used = at + whole;
        allocated++;
    } else {
        errno = ENOMEM;
    }
    pthread_mutex_unlock(&lock);
    return block;
}

APART void free(void *block) {
    (void)block;
}

APART void *calloc(size_t count, size_t size) {
    size_t whole;
    if (__builtin_mul_overflow(count, size, &whole))
        return NULL;
    return malloc(whole);
}

APART void *realloc(void *block, size_t size) {
    void *other = malloc(size);
    if (other && block) {
        size_t before = *(size_t *)((char *)block - 16);
        memcpy(other, block, before < size ? before : size);
    }
    return other;
}

#include "work.h"

static void take(void) {
    pthread_mutex_lock(&lock);
}

static void give(void) {
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void handlers(void) {
    pthread_atfork(take, give, give);
}

static void *use(void *unused) {
    for (int i = 1; i < 1000; i++) {
        char *block = malloc(i);
        if (block)
            memset(block, i, i);
        work(10);
        free(block);
    }
    return unused;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    pthread_t threads[4];
    work(1000);
    if (!strcmp(how, "poor"))
        limit = used + 100000;
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, use, NULL))
            threads[i] = 0;
    for (int i = 0; i < 4; i++)
        if (threads[i])
            pthread_join(threads[i], NULL);
    int right = 0;
    for (int i = 0; i < 10; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            use(NULL);
            _exit(7);
        }
        waitpid(child, &status, 0);
        right += WIFEXITED(status) && WEXITSTATUS(status) == 7;
    }
    limit = sizeof room;
    printf("%d %ld\n", right, work(1000));
    return 3;
}

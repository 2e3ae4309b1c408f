/* An allocator whose functions have probes, most of them called while its lock is held: more often than a ring has entries, in several threads. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 3, TURNS = 20, LOOKS = 20000, ROOM = 1 << 24 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char room[ROOM] __attribute__((aligned(16)));
static volatile size_t used;
static volatile int looks;

__attribute__((noinline)) int look(int at) {
    return looks += at >= 0;
}

__attribute__((noinline)) static void *carve(size_t len) {
    size_t at = used;
    used = at + ((len + 31) & ~(size_t)15);
    if (used > ROOM)
        return NULL;
    memcpy(room + at, &len, sizeof len);
    return room + at + 16;
}

void *malloc(size_t len) {
    pthread_mutex_lock(&lock);
    /* The program's own blocks are searched for long. */
    for (int i = 0; len == 1234 && i < LOOKS; i++)
        look(i);
    void *block = carve(len);
    pthread_mutex_unlock(&lock);
    return block;
}

void *calloc(size_t count, size_t len) {
    return malloc(count * len);
}

void *realloc(void *old, size_t len) {
    void *block = malloc(len);
    if (block && old) {
        size_t before;
        memcpy(&before, (char *)old - 16, sizeof before);
        memcpy(block, old, before < len ? before : len);
    }
    return block;
}

void free(void *block) {
    (void)block;
}

static void *work(void *unused) {
    for (int i = 0; i < TURNS; i++)
        *(volatile char *)malloc(1234) = 1;
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    char line[64];
    int len = snprintf(line, sizeof line, "%d\n", looks);
    return len > 0 && looks == THREADS * TURNS * LOOKS ? 3 : 4;
}

/* Brings an allocator of its own, of the kind that the first argument names:
     counting  says which threads call it;
     unsafe    must not be called by two threads at once, and finds out if it was;
     eight     aligns to eight bytes, and never to sixteen.
   The second argument is a file of counters, which tells what happened when the program is over. The program itself allocates on its main
   thread only; then it forks, and the child does the same. With a third argument its allocator's lock is held across fork, by handlers that
   are registered as late as can be, and the child opens it in its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

/* By process: the parent, its child. */
struct counters {
    atomic_ulong foreign, own, harm;
};
static struct counters before_main, *counters = &before_main;

static volatile int locked;
static int holds_lock_across_fork;

enum { ROOM = 1 << 28, CLASSES = 48 };
static char *arena;
static atomic_ulong used;
static int aligns_to_eight, checks = 1;
static atomic_int inside;

struct block {
    uint64_t class;
    struct block *next;
};
static struct block *free_lists[CLASSES];

QUIET static void enter(void) {
    int is_own = syscall(SYS_gettid) == syscall(SYS_getpid);
    atomic_fetch_add(is_own ? &counters->own : &counters->foreign, 1);
    /* A lock that is not ours to wait for: whoever comes while it is held across a fork waits for ever. */
    while (locked)
        syscall(SYS_sched_yield);
    if (checks && atomic_fetch_add(&inside, 1))
        atomic_fetch_add(&counters->harm, 1);
}

QUIET static void leave(void) {
    if (checks)
        atomic_fetch_sub(&inside, 1);
}

QUIET static void *take(size_t len) {
    enter();
    if (!arena)
        arena = (char *)syscall(SYS_mmap, 0, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int class = 5;
    while (len > (size_t)1 << class)
        class++;
    struct block *block = free_lists[class];
    /* A pause in which another thread may take the same block. */
    for (volatile int i = 0; i < 20; i++)
        ;
    if (block) {
        free_lists[class] = block->next;
    } else {
        /* A header of 16 bytes, or of 24: what follows lies at an odd multiple of eight. */
        unsigned long at = atomic_fetch_add(&used, (16ul << 1) + (1ul << class));
        block = (struct block *)(arena + at + (aligns_to_eight ? 8 : 0));
    }
    block->class = class;
    leave();
    return (char *)block + 16;
}

QUIET void *malloc(size_t len) {
    return take(len);
}

QUIET void *calloc(size_t count, size_t len) {
    char *block = take(count * len);
    for (volatile size_t i = 0; i < count * len; i++)
        block[i] = 0;
    return block;
}

QUIET void free(void *at) {
    if (!at)
        return;
    enter();
    struct block *block = (struct block *)((char *)at - 16);
    if (block->class >= CLASSES)
        atomic_fetch_add(&counters->harm, 1);
    else {
        block->next = free_lists[block->class];
        free_lists[block->class] = block;
    }
    leave();
}

QUIET void *realloc(void *old, size_t len) {
    char *new = take(len);
    if (old) {
        size_t had = (size_t)1 << ((struct block *)((char *)old - 16))->class;
        for (volatile size_t i = 0; i < (had < len ? had : len); i++)
            new[i] = ((char *)old)[i];
        free(old);
    }
    return new;
}

QUIET int posix_memalign(void **to, size_t align, size_t len) {
    *to = (void *)(((uintptr_t)take(len + align) + align - 1) & -align);
    return 0;
}

QUIET void *aligned_alloc(size_t align, size_t len) {
    void *block;
    posix_memalign(&block, align, len);
    return block;
}

QUIET void *memalign(size_t align, size_t len) {
    return aligned_alloc(align, len);
}

QUIET static void lock(void) {
    if (holds_lock_across_fork)
        locked = 1;
}

QUIET static void unlock(void) {
    locked = 0;
}

/* Those of preloaded libraries are registered by now: a child runs them before this one opens the lock. */
__attribute__((constructor)) QUIET static void late(void) {
    pthread_atfork(lock, unlock, unlock);
}

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

/* Blocks that nobody else may have, or change. */
__attribute__((noinline)) void work(int rounds) {
    enum { BLOCKS = 64 };
    unsigned char *blocks[BLOCKS] = {0};
    for (int i = 0; i < rounds; i++) {
        int at = i * 7 % BLOCKS;
        size_t len = 24 + i % 300;
        if (blocks[at]) {
            for (int j = 0; j < 24; j++)
                if (blocks[at][j] != (unsigned char)at)
                    atomic_fetch_add(&counters->harm, 1);
            free(blocks[at]);
        }
        blocks[at] = malloc(len);
        memset(blocks[at], at, 24);
        leaf(i);
    }
    for (int at = 0; at < BLOCKS; at++)
        free(blocks[at]);
}

static void load(void) {
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (library)
        dlclose(library);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 1;
    int file = open(argv[2], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096))
        return 2;
    struct counters *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED)
        return 3;
    close(file);
    aligns_to_eight = !strcmp(argv[1], "eight");
    holds_lock_across_fork = argc > 3;
    shared[0].foreign = before_main.foreign;
    shared[0].own = before_main.own;
    shared[0].harm = before_main.harm;
    counters = shared;
    work(200000);
    load();
    pid_t child = fork();
    if (child == 0) {
        counters = shared + 1;
        work(200000);
        load();
        return 5;
    }
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 5 ? 7 : 8;
}

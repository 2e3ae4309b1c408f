/* A program that runs until it is told to end: threads that call functions, allocate, or wait in
 * whatever way they were asked to. It ends with 0 if nothing unexpected has happened to it. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#ifdef __GLIBC__ /* musl's compiler does not find the kernel's headers */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#endif
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t over;
static _Atomic unsigned long turns;

__attribute__((noinline)) unsigned work(unsigned n)
{
    unsigned sum = 1;
    for (unsigned i = 0; i < n; i++)
        sum = sum * 1664525u + (sum >> 3) + i;
    return sum;
}

__attribute__((noinline)) unsigned allocate(unsigned seed)
{
    void *blocks[16];
    for (unsigned i = 0; i < 16; i++) {
        size_t size = 16 + (seed = seed * 1103515245u + 12345u) % 3000;
        blocks[i] = malloc(size);
        if (!blocks[i])
            abort();
        memset(blocks[i], (int)i, size);
    }
    for (unsigned i = 0; i < 16; i++) {
        if (*(unsigned char *)blocks[i] != i)
            abort();
        free(blocks[i]);
    }
    return seed;
}

/* Ends the program if a call is interrupted: no signal has a handler here. */
__attribute__((noinline)) void event(int queue)
{
    struct epoll_event events[4];
    int got = epoll_wait(queue, events, 4, -1);
    if (got < 0) {
        perror("epoll_wait");
        abort();
    }
    char byte;
    if (got > 0 && read(events[0].data.fd, &byte, 1) == 1)
        work(100);
}

static void *thread(void *what)
{
    unsigned seed = (unsigned)(uintptr_t)&what | 1;
    if (!strcmp(what, "work"))
        while (!over) {
            seed += work(300);
            turns++;
        }
    else if (!strcmp(what, "allocate"))
        while (!over) {
            seed = allocate(seed);
            turns++;
        }
    else if (!strcmp(what, "sleep"))
        while (!over) {
            struct timespec time = {0, 20000000};
            if (nanosleep(&time, NULL) && !over)
                abort();
            turns++;
        }
    else if (!strcmp(what, "closing"))
        /* As daemons do once, again and again: whatever is open was left there by others. */
        while (!over) {
            for (int i = 3; i < 1024; i++)
                close(i);
            turns++;
        }
    return (void *)(uintptr_t)seed;
}

/* As a program without threads may have it: no lock. It ends the program if two come by at once. */
#ifdef OWN_ALLOCATOR
static char heap[256 << 20] __attribute__((aligned(16)));
static size_t used;
static void **unused; /* blocks of one size, for whatever is small enough */
static volatile int inside;

static void enter(void)
{
    if (inside++)
        abort();
    for (volatile int i = 0; i < 50; i++)
        ;
}

__attribute__((noinline)) void *malloc(size_t size)
{
    enter();
    size_t *block = (size_t *)unused;
    if (size <= 4080 && block) {
        unused = *unused;
    } else {
        size_t room = size <= 4080 ? 4096 : (size + 31) & ~(size_t)15;
        block = (size_t *)(heap + used);
        used += room;
        if (used > sizeof heap)
            abort();
    }
    block[0] = size;
    inside--;
    return block + 2;
}

__attribute__((noinline)) void free(void *block)
{
    if (!block || ((size_t *)block)[-2] > 4080)
        return;
    enter();
    void **first = (void **)block - 2;
    *first = unused;
    unused = first;
    inside--;
}

void *calloc(size_t count, size_t size)
{
    void *block = malloc(count * size);
    return memset(block, 0, count * size);
}

void *realloc(void *old, size_t size)
{
    void *block = malloc(size);
    if (old) {
        size_t before = ((size_t *)old)[-2];
        memcpy(block, old, before < size ? before : size);
    }
    return block;
}
#endif

static void end(int signal)
{
    (void)signal;
    over = 1;
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "work";
    int threads = count > 2 ? atoi(words[2]) : 1;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (!strcmp(what, "wait")) {
        /* One thread that waits for events, another one that makes some. */
        int queue = epoll_create1(0), ends[2];
        struct epoll_event interest = {.events = EPOLLIN};
        if (pipe(ends))
            return 2;
        interest.data.fd = ends[0];
        epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], &interest);
        puts("ready");
        if (threads == 0)
            for (;;)
                event(queue);
        if (fork() == 0) {
            for (;;) {
                struct timespec pause = {0, 1000000};
                nanosleep(&pause, NULL);
                if (write(ends[1], "x", 1) != 1)
                    _exit(0);
                if (getppid() == 1)
                    _exit(0);
            }
        }
        for (;;)
            event(queue);
    }
#ifdef __GLIBC__
    if (!strcmp(what, "sandbox")) {
        struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog filter = {1, &allow};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
            return 2;
        what = "work";
    }
#endif
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    pthread_t others[64];
    for (int i = 1; i < threads; i++)
        pthread_create(&others[i], NULL, thread, (void *)what);
    puts("ready");
    thread((void *)what);
    for (int i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    printf("%lu turns\n", turns);
    return 0;
}

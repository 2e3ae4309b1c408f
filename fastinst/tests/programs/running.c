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
    return (void *)(uintptr_t)seed;
}

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

/* Probed signal handlers on the smallest signal stacks: the kernel's frame and a kilobyte, below which nothing is mapped. The first argument says
 * what is done there. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNSEEN __attribute__((no_instrument_function))
/* What hooks may take of the stack, and what a probed function has below its frame's address. */
#ifndef HOOKS
#define HOOKS 256
#endif
#define OWN 64

static const char paint = 0x5a;
static const size_t large = 1 << 17;
static char *volatile frame, *volatile deepest;
static volatile long calls;
static int leaves;

__attribute__((noinline)) int leaf(int x) {
    char *here = __builtin_frame_address(0);
    if (here < deepest)
        deepest = here;
    calls++;
    return x;
}

__attribute__((noinline)) int branch(int x) {
    return leaf(x) + 1;
}

static void handler(int signal, siginfo_t *info, void *context) {
    frame = (char *)context - sizeof(void *);
    for (int i = 0; i < 1000; i++)
        branch(signal);
    if (leaves)
        _exit(7);
}

static UNSEEN void take(char *from, size_t size) {
    stack_t stack = {.ss_sp = from, .ss_size = size};
    if (sigaltstack(&stack, NULL))
        perror("sigaltstack");
}

/* How far below the deepest function's frame anything was written. */
static UNSEEN void measure(char *stack, int signal, const char *what) {
    memset(stack, paint, large);
    take(stack, large);
    deepest = stack + large;
    raise(signal);
    char *lowest = stack;
    while (*lowest == paint)
        lowest++;
    long depth = deepest - lowest;
    if (depth <= HOOKS + OWN)
        printf("%s: little\n", what);
    else
        printf("%s: %ld bytes\n", what, depth);
}

/* A thread whose first probes are a handler's. */
static UNSEEN void *new_thread(void *stack) {
    measure(stack, SIGUSR1, "new thread");
    return NULL;
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    char *stack = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, new_thread, stack);
    pthread_join(thread, NULL);
    measure(stack, SIGUSR1, "first");
    size_t size = stack + large - frame + 1024;
    for (int i = 0; i < 100; i++)
        measure(stack, SIGUSR1, "later");
    char *least = stack + large / 2;
    mprotect(stack, large / 2, PROT_NONE);
    take(least, size);
    leaves = argc > 1 && strcmp(argv[1], "leave") == 0;
    for (int i = 0; i < 100; i++)
        raise(SIGUSR1);
    printf("%ld\n", calls);
    fflush(stdout);
    return 0;
}

/* Probed signal handlers on the smallest signal stacks: the kernel's frame and a kilobyte, below which nothing is mapped. The first argument says
 * what is done there. */
#define _GNU_SOURCE
#include "painted.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static char *volatile frame;
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

static UNSEEN void measure(char *stack, int signal, const char *what) {
    take(stack, large);
    look(stack, signal, what);
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

/* Everything at once: threads that hardly live, libraries that are loaded and at once called by all threads, children that are made in the
   middle of it, and a signal whose handler makes calls. How often each function was called follows from the arguments, but for the
   handler, which keeps a tally: that of the process itself, to a file. Arguments: the file, the rounds, libraries. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLERS = 3 };

static _Thread_local volatile int sink;
static atomic_ulong told;
static int rounds;
static char **paths;
static int (*_Atomic plugin)(int);
static pthread_barrier_t gate;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline)) int inner(int x) {
    return leaf(x) + leaf(x + 1);
}

__attribute__((noinline)) int down(int depth) {
    int below = depth == 0 ? 0 : down(depth - 1);
    sink = depth;
    return below + 1;
}

__attribute__((noinline)) void tell(void) {
    atomic_fetch_add(&told, 1);
}

__attribute__((no_instrument_function)) static void handler(int signal) {
    (void)signal;
    tell();
}

static void *pass(void *number) {
    return (void *)(intptr_t)(inner((int)(intptr_t)number) + down(20));
}

/* All come through the gate at the same moment, and call what was loaded while they waited. */
static void *call(void *unused) {
    for (int i = 0; i < rounds; i++) {
        pthread_barrier_wait(&gate);
        plugin(50);
        inner(i);
        pthread_barrier_wait(&gate);
    }
    return unused;
}

static int breed(int round) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
        for (int i = 0; i < 10; i++)
            inner(i);
        down(2000);
        if (plugin)
            plugin(20);
        if (round % 2)
            _exit(3);
        exit(3);
    }
    while (waitpid(child, &status, 0) != child)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 3;
}

static void *load(void *unused) {
    for (int i = 0; i < rounds; i++) {
        void *library = dlopen(paths[i], i % 2 ? RTLD_NOW : RTLD_LAZY);
        plugin = (int (*)(int))(intptr_t)(library ? dlsym(library, "plugin") : NULL);
        if (!plugin)
            abort();
        pthread_barrier_wait(&gate);
        pthread_barrier_wait(&gate);
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[CALLERS + 1], passer;
    intptr_t sum = 0, right = 0;
    if (argc < 4)
        return 1;
    rounds = atoi(argv[2]);
    paths = argv + 3;
    pthread_barrier_init(&gate, NULL, CALLERS + 1);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 200}, {0, 200}}, NULL);
    for (int i = 0; i < CALLERS; i++)
        pthread_create(&threads[i], NULL, call, NULL);
    pthread_create(&threads[CALLERS], NULL, load, NULL);
    for (intptr_t i = 0; i < rounds; i++) {
        void *result;
        pthread_create(&passer, NULL, pass, (void *)i);
        right += breed((int)i);
        pthread_join(passer, &result);
        sum += (intptr_t)result;
    }
    for (int i = 0; i <= CALLERS; i++)
        pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    FILE *tally = fopen(argv[1], "w");
    if (!tally)
        return 2;
    fprintf(tally, "%lu\n", atomic_load(&told));
    fclose(tally);
    printf("%ld %ld\n", (long)sum, (long)right);
    return 0;
}

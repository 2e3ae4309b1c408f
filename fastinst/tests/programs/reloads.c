/*
 * Loads two libraries in turn, calls them and unloads them, until SIGTERM arrives. With CODE a library, whose hooks
 * lie where the other one, with DATA, has words that the loader relocates.
 */
#ifdef CODE
__asm__(".text\n.zero 0x10000\n");
static volatile int sink;

__attribute__((noinline)) int count_up(int x) {
    sink = x;
    return x + 1;
}

int turn(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += count_up(i);
    return sum;
}
#elif defined(DATA)
#define FOUR(x) x, x, x, x
#define MANY(x) FOUR(FOUR(FOUR(FOUR(FOUR(x)))))
static int one = 1;
static int *words[] = {MANY(&one), MANY(&one)};

int turn(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += (i + 1) * *words[i * 7 % (sizeof words / sizeof words[0])];
    return sum;
}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int over;

static void *load(void *names) {
    const int n = 100;
    for (int i = 0; !atomic_load(&over); i ^= 1) {
        void *library = dlopen(((char **)names)[i], RTLD_NOW);
        int (*turn)(int) = library ? (int (*)(int))dlsym(library, "turn") : NULL;
        if (!turn || turn(n) != n * (n + 1) / 2)
            exit(2);
        dlclose(library);
    }
    return NULL;
}

/* The libraries. */
int main(int argc, char **argv) {
    sigset_t end;
    int signal;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &end, NULL);
    pthread_t thread;
    if (argc < 3 || pthread_create(&thread, NULL, load, argv + 1))
        return 1;
    puts("ready");
    fflush(stdout);
    sigwait(&end, &signal);
    atomic_store(&over, 1);
    return pthread_join(thread, NULL);
}
#endif

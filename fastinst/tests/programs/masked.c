/* Threads that block every signal work while the program toggles its own use of SIGTRAP. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile int sink;
static volatile long trapped;

#define FUNCTION(name)                                                                                                   \
    __attribute__((noinline)) int name(int x) {                                                                          \
        sink = x;                                                                                                        \
        return x + 1;                                                                                                    \
    }
FUNCTION(one)
FUNCTION(two)
FUNCTION(three)
FUNCTION(four)
FUNCTION(five)

static void on_trap(int signal) {
    (void)signal;
    trapped++;
}

static void *work(void *unused) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (int i = 0; i < 400000; i++)
        one(two(three(four(five(i)))));
    return unused;
}

int main(void) {
    pthread_t threads[3];
    struct sigaction action = {.sa_handler = on_trap};
    sigaction(SIGTRAP, &action, NULL);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 100; i++) {
        raise(SIGTRAP);
        __asm__ volatile("int3");
        one(i);
        usleep(500);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%ld trapped\n", trapped);
    return 0;
}

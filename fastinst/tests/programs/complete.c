// Calls whose number follows from the text: a recursion, threads that fill their rings, a timer whose handler makes calls of its own
// meanwhile, and calls that are left by longjmp.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

#define NOINLINE __attribute__((noinline))

static volatile sig_atomic_t alarms;
static volatile int sink;
static jmp_buf back;

NOINLINE void in_handler(void) { sink++; }

NOINLINE void on_alarm(int number) {
    (void)number;
    for (int i = 0; i < 60; i++) in_handler();
    alarms++;
}

NOINLINE int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

NOINLINE void step(void) { sink++; }

NOINLINE void *work(void *nothing) {
    for (int i = 0; i < 100000; i++) step();
    return nothing;
}

NOINLINE void jump(void) { longjmp(back, 1); }

NOINLINE void leave(void) {
    if (!setjmp(back)) jump();
}

int main(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, NULL);
    sink = fib(22);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < 100; i++) leave();
    printf("%d\n", (int)alarms);
    return 0;
}

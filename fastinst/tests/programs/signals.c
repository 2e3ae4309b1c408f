/* A probed handler on a stack of its own, every 100 microseconds, that leaves by siglongjmp now and then; longjmp over ten frames. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static volatile long handled;
static volatile int armed;
static sigjmp_buf back;

__attribute__((noinline)) int leaf(int x) {
    handled += x >= 0;
    return x;
}

static void handler(int signal) {
    for (int i = 0; i < 10; i++)
        leaf(signal);
    if (armed) {
        armed = 0;
        siglongjmp(back, 1);
    }
}

__attribute__((noinline)) int recurse(int depth) {
    return depth == 0 ? leaf(depth) : recurse(depth - 1) + 1;
}

__attribute__((noinline)) void jump(int depth) {
    if (depth == 0)
        longjmp(back, 2);
    jump(depth - 1);
    handled++;
}

int main(void) {
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
    volatile long sum = 0;
    for (volatile int i = 0; i < 100000; i++) {
        /* Never out of malloc: nobody may leave that by a jump. */
        if (i % 10 == 0 && sigsetjmp(back, 1) == 0)
            armed = 1;
        sum += recurse(10);
        armed = 0;
        void *memory = malloc(100 + i % 500);
        memset(memory, 1, 10);
        free(memory);
    }
    for (volatile int i = 0; i < 2000; i++)
        if (!setjmp(back))
            jump(10);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%d\n", handled > 0);
    return 0;
}

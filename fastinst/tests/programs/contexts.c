/* Ten coroutines on stacks of their own, which give way in the middle of probed functions. */
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { ROUTINES = 10, STEPS = 500, STACK = 1 << 16 };

static volatile int sink;
static ucontext_t scheduler, routines[ROUTINES];
static int current;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline)) void give_way(void) {
    leaf(1);
    swapcontext(&routines[current], &scheduler);
    leaf(2);
}

__attribute__((noinline)) void nest(int depth) {
    if (depth == 0)
        give_way();
    else
        nest(depth - 1);
    leaf(depth);
}

static void routine(void) {
    for (int step = 0; step < STEPS; step++)
        nest(step % 5);
}

int main(void) {
    int left = ROUTINES;
    for (int i = 0; i < ROUTINES; i++) {
        getcontext(&routines[i]);
        routines[i].uc_stack.ss_sp = malloc(STACK);
        routines[i].uc_stack.ss_size = STACK;
        routines[i].uc_link = &scheduler;
        makecontext(&routines[i], routine, 0);
    }
    /* One turn more than there are steps: then a routine ends. */
    for (int turn = 0; turn <= STEPS; turn++)
        for (current = 0; current < ROUTINES; current++)
            swapcontext(&scheduler, &routines[current]);
    printf("%d routines\n", left);
    return 0;
}

/* longjmp over ten probed frames, again and again, and functions that never return. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static volatile int sink;
static jmp_buf back;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline, noreturn)) void leap(int value) {
    leaf(value);
    longjmp(back, value);
}

__attribute__((noinline)) int descend(int depth) {
    if (depth == 0)
        leap(1);
    return descend(depth - 1) + leaf(depth);
}

__attribute__((noinline, noreturn)) void finish(int code) {
    leaf(code);
    exit(code);
}

int main(void) {
    volatile long jumped = 0;
    for (volatile int i = 0; i < 3000; i++) {
        if (setjmp(back))
            jumped++;
        else
            descend(10);
        leaf(i);
    }
    printf("%ld\n", jumped);
    finish(6);
}

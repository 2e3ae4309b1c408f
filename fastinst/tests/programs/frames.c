/* Frames of every shape: deep, doubly recursive, mutually recursive, of tail calls, of a size that is known late, inlined. */
#include <alloca.h>
#include <stdio.h>
#include <string.h>

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

static inline int twice(int x) {
    return leaf(x) + leaf(x + 1);
}

static inline __attribute__((always_inline)) int four_times(int x) {
    return twice(x) + twice(x + 2);
}

__attribute__((noinline)) int deep(int depth) {
    int below = depth == 0 ? 0 : deep(depth - 1);
    sink = depth;
    return below + 1;
}

__attribute__((noinline)) int fib(int n) {
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

__attribute__((noinline)) int odd(int n);

__attribute__((noinline)) int even(int n) {
    return n == 0 ? 1 : odd(n - 1);
}

__attribute__((noinline)) int odd(int n) {
    return n == 0 ? 0 : even(n - 1);
}

__attribute__((noinline)) void last(int x) {
    sink = x;
}

/* Its exit hook is a tail jump where the compiler optimises. */
__attribute__((noinline)) void hand_over(int x) {
    if (x % 3)
        last(x);
    else
        sink = x;
}

__attribute__((noinline)) int on_the_stack(int size) {
    char *room = alloca((size_t)size);
    memset(room, size & 0x7f, (size_t)size);
    return leaf(room[size - 1]);
}

__attribute__((noinline)) int variable(int size) {
    char room[size];
    memset(room, 1, (size_t)size);
    return size < 2 ? leaf(room[0]) : variable(size / 2) + room[size - 1];
}

int main(void) {
    long sum = deep(100000) + fib(20);
    for (int i = 1; i < 1000; i++) {
        sum += four_times(i) + even(i % 50) + on_the_stack(i) + variable(i);
        hand_over(i);
    }
    sum += deep(1000);
    printf("%ld\n", sum);
    return 0;
}

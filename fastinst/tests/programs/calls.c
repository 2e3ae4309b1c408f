/* Calls of known numbers: nested, recursive, tail calls, a function in line. */
#include <stdio.h>

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    int sum = 0;
    for (int i = 0; i < 5; i++)
        sum += x ^ i;
    sink = sum;
    return sum;
}

static inline int inner(int x) {
    return leaf(x) + 1;
}

__attribute__((noinline)) int middle(int x) {
    int sum = 0;
    for (int i = 0; i < 10; i++)
        sum += inner(x + i);
    return sum;
}

__attribute__((noinline)) long fib(int n) {
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

__attribute__((noinline)) void last(int x) {
    sink += x;
}

__attribute__((noinline)) void tail(int x) {
    last(x + 1);
}

int main(void) {
    long sum = 0;
    for (int i = 0; i < 20000; i++) {
        sum += middle(i);
        tail(i);
    }
    printf("%ld %ld\n", sum, fib(20));
    return 7;
}

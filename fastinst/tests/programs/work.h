/* What programs of the tests do while they are observed: calls whose number is known. */
#ifndef WORK_H
#define WORK_H

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline)) long work(int n) {
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += leaf(i);
    return sum;
}

#endif

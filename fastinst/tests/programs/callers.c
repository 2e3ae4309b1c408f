/* A little of everything that sanitizers look at: the heap, arrays on the stack, shifts, threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One for each thread: sanitizers look for races, too. */
static _Thread_local volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline)) long fill(int n) {
    int array[64];
    long sum = 0;
    for (int i = 0; i < 64; i++)
        array[i] = leaf(i);
    int *heap = malloc(sizeof array);
    memcpy(heap, array, sizeof array);
    for (int i = 0; i < 64; i++)
        sum += heap[i] << (n & 3);
    free(heap);
    return sum;
}

static void *work(void *sum) {
    for (int i = 0; i < 100; i++)
        *(long *)sum += fill(i);
    for (int i = 0; i < 3600; i++)
        *(long *)sum += leaf(i);
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    long sums[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, &sums[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", sums[0] + sums[1]);
    return 0;
}

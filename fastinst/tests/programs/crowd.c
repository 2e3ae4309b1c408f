/* Sixteen threads that stay, and three thousand that hardly live; each on the least stack that a thread may have. */
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { LONG = 16, SHORT = 3000, STACK = 16384 };

static volatile int sink;
static volatile int stop;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline)) int middle(int x) {
    return leaf(x) + leaf(x + 1);
}

static void *stay(void *unused) {
    for (int i = 0; i < 5000 || !stop; i++) {
        if (i < 5000)
            middle(i);
        else
            usleep(1000);
    }
    return unused;
}

static void *pass(void *number) {
    return (void *)(intptr_t)middle((int)(intptr_t)number);
}

int main(void) {
    pthread_t stayers[LONG], passer;
    pthread_attr_t small;
    long sum = 0;
    void *result;
    pthread_attr_init(&small);
    if (pthread_attr_setstacksize(&small, STACK))
        return 1;
    for (int i = 0; i < LONG; i++)
        if (pthread_create(&stayers[i], &small, stay, NULL))
            return 2;
    for (intptr_t i = 0; i < SHORT; i++) {
        if (pthread_create(&passer, &small, pass, (void *)i))
            return 3;
        pthread_join(passer, &result);
        sum += (intptr_t)result;
    }
    stop = 1;
    for (int i = 0; i < LONG; i++)
        pthread_join(stayers[i], NULL);
    printf("%ld\n", sum);
    return 0;
}

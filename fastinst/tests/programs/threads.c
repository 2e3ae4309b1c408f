/* Sixteen threads at a time, eight hundred in all; some end by pthread_exit, and destructors of their data call functions. */
#include "work.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

static pthread_key_t key;

__attribute__((noinline)) void goodbye(void *value) {
    leaf((int)(intptr_t)value);
}

static void *run(void *number) {
    pthread_setspecific(key, (void *)1);
    long sum = work(500);
    if ((intptr_t)number % 2)
        pthread_exit((void *)sum);
    return (void *)sum;
}

int main(void) {
    long sum = 0;
    pthread_key_create(&key, goodbye);
    for (int round = 0; round < 50; round++) {
        pthread_t threads[16];
        for (intptr_t i = 0; i < 16; i++)
            pthread_create(&threads[i], NULL, run, (void *)i);
        for (int i = 0; i < 16; i++) {
            void *result;
            pthread_join(threads[i], &result);
            sum += (long)result;
        }
    }
    printf("%ld\n", sum);
    return 0;
}

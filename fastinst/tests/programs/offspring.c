/* Four threads fork at the same time, while two others work; the workers end by _exit, exit, or a signal. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline)) void work(int n) {
    for (int i = 0; i < n; i++)
        leaf(i);
}

static void *background(void *unused) {
    work(200000);
    return unused;
}

static void *breed(void *number) {
    intptr_t right = 0;
    for (int i = 0; i < 10; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            work(1000);
            if ((i + (intptr_t)number) % 2)
                _exit(3);
            exit(4);
        }
        waitpid(child, &status, 0);
        right += WIFEXITED(status) && WEXITSTATUS(status) == ((i + (intptr_t)number) % 2 ? 3 : 4);
        work(100);
    }
    return (void *)right;
}

int main(void) {
    pthread_t workers[2], breeders[4];
    intptr_t right = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&workers[i], NULL, background, NULL);
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&breeders[i], NULL, breed, (void *)i);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(breeders[i], &result);
        right += (intptr_t)result;
    }
    for (int i = 0; i < 2; i++)
        pthread_join(workers[i], NULL);
    printf("%ld\n", (long)right);
    return 0;
}

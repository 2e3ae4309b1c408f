/* Changes the identity of the process in one thread, which the C library does by a signal to every other, while four threads work. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

static void *work(void *unused) {
    for (int i = 0; i < 100000; i++)
        leaf(i);
    return unused;
}

static void *change(void *unused) {
    uid_t user = getuid();
    gid_t group = getgid();
    int wrong = 0;
    for (int i = 0; i < 200; i++) {
        leaf(i);
        wrong += setresgid(group, group, group) != 0;
        /* Only root can become another, and come back. */
        wrong += user == 0 && (setresuid(-1, 65534, -1) != 0 || geteuid() != 65534);
        wrong += setresuid(-1, user, -1) != 0 || geteuid() != user;
    }
    printf("%d wrong\n", wrong);
    return unused;
}

int main(void) {
    pthread_t threads[5];
    for (int i = 0; i < 5; i++)
        pthread_create(&threads[i], NULL, i < 4 ? work : change, NULL);
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

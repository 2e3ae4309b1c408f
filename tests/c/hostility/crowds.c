/* Many of something. "threads": two thousand at once; "short": ten thousand, one after the other; "processes": a hundred at once; "generations": a
   child of a child, thirty deep; "cancelled": threads that are cancelled while they work; "detached": threads that nobody waits for. */
#define _GNU_SOURCE
#include "work.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 2000, SHORT = 10000, PROCESSES = 100, GENERATIONS = 30 };

static pthread_t threads[THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int arrived, may_go;
static long sum;

static void *meet(void *unused) {
    long mine = work(10);
    pthread_mutex_lock(&lock);
    arrived++;
    pthread_cond_broadcast(&moved);
    while (!may_go)
        pthread_cond_wait(&moved, &lock);
    sum += mine;
    pthread_mutex_unlock(&lock);
    work(10);
    return unused;
}

static void *pass(void *unused) {
    work(5);
    return unused;
}

static void *toil(void *unused) {
    for (;;) {
        work(100);
        pthread_testcancel();
    }
    return unused;
}

static void all_at_once(pthread_attr_t *small) {
    int made = 0;
    while (made < THREADS && pthread_create(&threads[made], small, meet, NULL) == 0)
        made++;
    pthread_mutex_lock(&lock);
    while (arrived < made)
        pthread_cond_wait(&moved, &lock);
    may_go = 1;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    printf("%d threads\n", made);
}

static void one_after_the_other(pthread_attr_t *small, int detached) {
    for (int i = 0; i < SHORT / (detached ? 10 : 1); i++) {
        pthread_t thread;
        if (pthread_create(&thread, small, pass, NULL))
            printf("no thread %d\n", i);
        else if (detached)
            pthread_detach(thread);
        else
            pthread_join(thread, NULL);
    }
}

static int descend(int left) {
    if (left == 0)
        return 0;
    pid_t child = fork();
    if (child == 0) {
        work(10);
        _exit(1 + descend(left - 1));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

static void children(void) {
    pid_t made[PROCESSES];
    int right = 0;
    for (int i = 0; i < PROCESSES; i++)
        if ((made[i] = fork()) == 0)
            _exit((int)(work(100) != 0) + i % 7);
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        waitpid(made[i], &status, 0);
        right += WIFEXITED(status) && WEXITSTATUS(status) == 1 + i % 7;
    }
    printf("%d processes\n", right);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 1;
    const char *how = argv[1];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32768);
    work(1000);
    if (!strcmp(how, "threads")) {
        all_at_once(&small);
    } else if (!strcmp(how, "short") || !strcmp(how, "detached")) {
        one_after_the_other(&small, how[0] == 'd');
    } else if (!strcmp(how, "processes")) {
        children();
    } else if (!strcmp(how, "generations")) {
        printf("%d generations\n", descend(GENERATIONS));
    } else {
        for (int i = 0; i < 20; i++) {
            void *ended;
            pthread_create(&threads[i], &small, toil, NULL);
            usleep(1000);
            pthread_cancel(threads[i]);
            pthread_join(threads[i], &ended);
            sum += ended == PTHREAD_CANCELED;
        }
    }
    printf("%ld %ld\n", sum, work(1000));
    return 3;
}

/* Ends in the way that it is told, after a thousand calls. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int sink;
static volatile int *volatile nowhere;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

/* Its own name, as how often it runs depends on time. */
__attribute__((noinline)) int busy(int x) {
    sink = x;
    return x + 1;
}

static void *toil(void *unused) {
    for (int i = 0;; i++)
        busy(i);
    return unused;
}

static void *end_later(void *main_thread) {
    pthread_join(*(pthread_t *)main_thread, NULL);
    leaf(1);
    puts("after main");
    exit(8);
}

static void on_fault(int signal) {
    leaf(signal);
    _exit(12);
}

static void at_the_end(void) {
    for (int i = 0; i < 10; i++)
        leaf(i);
    puts("at the end");
}

static void start(void *(*run)(void *), int threads) {
    pthread_t thread;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread, NULL, run, NULL) == 0)
            pthread_detach(thread);
}

int main(int argc, char **argv) {
    static pthread_t self;
    pthread_t other;
    const char *how = argc > 1 ? argv[1] : "return";
    for (int i = 0; i < 1000; i++)
        leaf(i);
    puts(how);
    fflush(stdout);
    if (argc > 2)
        usleep(300000);
    if (!strcmp(how, "exit")) {
        start(toil, 3);
        usleep(20000);
        exit(4);
    } else if (!strcmp(how, "_exit")) {
        start(toil, 3);
        usleep(20000);
        _exit(5);
    } else if (!strcmp(how, "quick")) {
        at_quick_exit(at_the_end);
        quick_exit(6);
    } else if (!strcmp(how, "atexit")) {
        atexit(at_the_end);
        return 7;
    } else if (!strcmp(how, "thread")) {
        self = pthread_self();
        pthread_create(&other, NULL, end_later, &self);
        pthread_exit(NULL);
    } else if (!strcmp(how, "caught")) {
        signal(SIGSEGV, on_fault);
        return *nowhere;
    } else if (!strcmp(how, "fault")) {
        return *nowhere;
    } else if (!strcmp(how, "abort")) {
        abort();
    } else if (!strcmp(how, "term")) {
        raise(SIGTERM);
    } else if (!strcmp(how, "kill")) {
        raise(SIGKILL);
    }
    return 0;
}

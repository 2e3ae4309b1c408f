/* Another library that is preloaded: it stands before what many tools stand before, passes everything on, and has a thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_long passed;

#define PASS(result, name, parameters, arguments)                                                                        \
    result name parameters {                                                                                             \
        static result(*next) parameters;                                                                                 \
        if (!next)                                                                                                       \
            next = dlsym(RTLD_NEXT, #name);                                                                              \
        passed++;                                                                                                        \
        return next arguments;                                                                                           \
    }

PASS(int, sigaction, (int number, const struct sigaction *new, struct sigaction *old), (number, new, old))
PASS(int, sigprocmask, (int how, const sigset_t *new, sigset_t *old), (how, new, old))
PASS(int, pthread_sigmask, (int how, const sigset_t *new, sigset_t *old), (how, new, old))
PASS(int, pthread_create, (pthread_t *to, const pthread_attr_t *with, void *(*run)(void *), void *of), (to, with, run, of))
PASS(pid_t, fork, (void), ())
PASS(void *, dlopen, (const char *path, int how), (path, how))
PASS(int, dlclose, (void *library), (library))
PASS(ssize_t, write, (int to, const void *bytes, size_t n), (to, bytes, n))

static void *watch(void *unused) {
    for (;;) {
        struct timespec pause = {0, 5000000};
        nanosleep(&pause, NULL);
        passed++;
    }
    return unused;
}

__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch, NULL) == 0)
        pthread_detach(thread);
}

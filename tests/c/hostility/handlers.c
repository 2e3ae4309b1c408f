/*
 * Signals. "full-mask": a handler that blocks everything calls probed functions. "trap": SIGTRAP is its own, "ignored" or "blocked". "smallest": a
 * handler on a stack of the least size that the kernel takes. "profiled": SIGPROF a thousand times a second of processor time. "all": every
 * signal has a handler and arrives. "waits": a thread waits for all signals. "descriptor": they come through a descriptor.
 * "children": nobody waits for children. "leaves": handlers leave by siglongjmp. "guards": faults are caught and gone on from.
 * "overflows": the stack's end is met and left. "nested": a handler is interrupted by the next. "storm": another process sends as fast as it can.
 */
#define _GNU_SOURCE
#include "work.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

static volatile long handled, sum;
static sigjmp_buf back;
static char *volatile page;

static void handle(int signal) {
    (void)signal;
    sum += work(10);
    handled++;
}

static void leave(int signal) {
    sum += leaf(signal);
    siglongjmp(back, 1);
}

/* The page that faulted becomes one that does not. */
static void open_page(int signal) {
    sum += leaf(signal);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void raise_next(int signal) {
    sum += leaf(signal);
    handled++;
    if (signal < SIGRTMIN + 8)
        raise(signal + 1);
    sum += leaf(signal);
}

static void install(int signal, void (*handler)(int), int flags, int full) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (full)
        sigfillset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

static void stack_of(size_t size) {
    stack_t stack = {.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), .ss_size = size};
    if (sigaltstack(&stack, NULL))
        printf("no stack: %s\n", strerror(errno));
}

__attribute__((noinline)) int descend(int depth) {
    volatile char room[512];
    room[depth % 512] = 1;
    return descend(depth + 1) + room[0];
}

static void *wait_for_all(void *all) {
    int signal = 0;
    for (int i = 0; i < 20; i++) {
        sigwait(all, &signal);
        sum += leaf(signal);
        handled++;
    }
    return NULL;
}

static void arrive(int signal, int times) {
    for (int i = 0; i < times; i++)
        raise(signal);
}

static void with_threads(const char *how) {
    sigset_t all;
    sigfillset(&all);
    if (!strcmp(how, "waits")) {
        pthread_t thread;
        pthread_sigmask(SIG_BLOCK, &all, NULL);
        pthread_create(&thread, NULL, wait_for_all, &all);
        for (int i = 0; i < 20; i++) {
            kill(getpid(), SIGUSR1);
            while (handled == i)
                usleep(100);
        }
        pthread_join(thread, NULL);
    } else {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGUSR2);
        sigprocmask(SIG_BLOCK, &one, NULL);
        int descriptor = signalfd(-1, &one, SFD_CLOEXEC);
        for (int i = 0; i < 20; i++) {
            struct signalfd_siginfo info;
            kill(getpid(), SIGUSR2);
            handled += read(descriptor, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR2;
            work(100);
        }
        close(descriptor);
    }
}

static void with_children(const char *how) {
    if (!strcmp(how, "children")) {
        signal(SIGCHLD, SIG_IGN);
        for (int i = 0; i < 5; i++)
            if (fork() == 0)
                _exit((int)work(10) & 1);
        handled = wait(NULL) == -1 && errno == ECHILD;
    } else {
        pid_t parent = getpid();
        install(SIGUSR1, handle, SA_RESTART, 0);
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 20000; i++)
                kill(parent, SIGUSR1);
            _exit(0);
        }
        int status = -1;
        while (waitpid(child, &status, WNOHANG) == 0)
            work(1000);
        handled = status;
        sum = 0;
    }
}

static void with_jumps(const char *how) {
    if (!strcmp(how, "leaves")) {
        install(SIGUSR1, leave, 0, 0);
        for (volatile int i = 0; i < 1000; i++) {
            if (sigsetjmp(back, 1) == 0)
                arrive(SIGUSR1, 1);
            else
                handled++;
        }
    } else if (!strcmp(how, "guards")) {
        page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        install(SIGSEGV, open_page, 0, 0);
        for (int i = 0; i < 1000; i++) {
            mprotect(page, 4096, PROT_NONE);
            page[i] = (char)leaf(i);
            handled++;
        }
    } else {
        stack_of(1 << 16);
        install(SIGSEGV, leave, SA_ONSTACK, 0);
        for (volatile int i = 0; i < 5; i++) {
            if (sigsetjmp(back, 1) == 0)
                descend(0);
            else
                handled++;
        }
    }
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 1;
    const char *how = argv[1];
    work(1000);
    if (!strcmp(how, "full-mask")) {
        install(SIGUSR1, handle, 0, 1);
        arrive(SIGUSR1, 1000);
    } else if (!strcmp(how, "trap")) {
        install(SIGTRAP, handle, 0, 0);
        for (int i = 0; i < 100; i++)
            __asm__ volatile("int3");
    } else if (!strcmp(how, "ignored")) {
        signal(SIGTRAP, SIG_IGN);
        arrive(SIGTRAP, 100);
    } else if (!strcmp(how, "blocked")) {
        sigset_t traps;
        sigemptyset(&traps);
        sigaddset(&traps, SIGTRAP);
        sigprocmask(SIG_BLOCK, &traps, NULL);
        arrive(SIGTRAP, 100);
    } else if (!strcmp(how, "smallest")) {
        size_t least = getauxval(AT_MINSIGSTKSZ);
        stack_of((least ? least : 2048) + 1024);
        install(SIGUSR1, handle, SA_ONSTACK, 0);
        arrive(SIGUSR1, 1000);
    } else if (!strcmp(how, "profiled")) {
        struct itimerval often = {{0, 1000}, {0, 1000}};
        install(SIGPROF, handle, SA_RESTART, 0);
        setitimer(ITIMER_PROF, &often, NULL);
        while (handled < 50)
            work(1000);
        often = (struct itimerval){{0, 0}, {0, 0}};
        setitimer(ITIMER_PROF, &often, NULL);
        handled = sum = 0;
    } else if (!strcmp(how, "all")) {
        for (int signal = 1; signal <= SIGRTMAX; signal++)
            install(signal, handle, SA_RESTART, 0);
        for (int signal = 1; signal <= SIGRTMAX; signal++)
            if (signal != SIGKILL && signal != SIGSTOP && (signal < 32 || signal >= SIGRTMIN))
                raise(signal);
    } else if (!strcmp(how, "nested")) {
        for (int signal = SIGRTMIN; signal <= SIGRTMIN + 8; signal++)
            install(signal, raise_next, 0, 0);
        arrive(SIGRTMIN, 100);
    } else if (!strcmp(how, "waits") || !strcmp(how, "descriptor")) {
        with_threads(how);
    } else if (!strcmp(how, "children") || !strcmp(how, "storm")) {
        with_children(how);
    } else {
        with_jumps(how);
    }
    printf("%ld %ld %ld\n", handled, sum, work(1000));
    return 3;
}

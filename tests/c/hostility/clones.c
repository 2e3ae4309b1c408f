/*
 * Children and threads that the C library does not know of. "thread": a thread by the system call, without thread data of its own, which makes system
 * calls only; "shared": a child that shares memory and works on its own stack; "handler": fork from a signal handler that interrupts work;
 * "both": two threads fork at the same time; "orphan": a grandchild outlives its parents; "first": a child is process 1 of a namespace,
 * and has a child itself.
 */
#define _GNU_SOURCE
#include "work.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int forked, right;

static int ended(pid_t child) {
    int status = -1;
    waitpid(child, &status, __WALL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

__attribute__((no_instrument_function)) static int tell(void *word) {
    return write(*(int *)word, "told\n", 5) == 5 ? 0 : 1;
}

static int toil(void *unused) {
    (void)unused;
    return (int)(work(1000) & 0x7f);
}

static void fork_here(int signal) {
    (void)signal;
    pid_t child = fork();
    if (child == 0)
        _exit((int)(work(100) & 0x3f));
    right += ended(child) == (4950 + 100) % 64;
    forked++;
}

static void *fork_often(void *unused) {
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit((int)(work(100) & 0x3f));
        if (ended(child) == (4950 + 100) % 64)
            __atomic_fetch_add(&right, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

static int be_first(void *unused) {
    (void)unused;
    pid_t child = fork();
    if (child == 0)
        _exit(getpid() == 2 ? (int)(work(100) & 0x3f) : 99);
    return getpid() == 1 && ended(child) == (4950 + 100) % 64 ? 42 : 43;
}

static int new_child(int (*run)(void *), int flags) {
    char *stack = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int out = 1;
    pid_t child = clone(run, stack + (1 << 18), flags, &out);
    return child < 0 ? -1 : ended(child);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 1;
    const char *how = argv[1];
    int code = 0;
    work(1000);
    if (!strcmp(how, "thread")) {
        code = new_child(tell, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD);
    } else if (!strcmp(how, "shared")) {
        code = new_child(toil, CLONE_VM | CLONE_VFORK | SIGCHLD);
    } else if (!strcmp(how, "first")) {
        code = new_child(be_first, CLONE_NEWPID | SIGCHLD);
    } else if (!strcmp(how, "handler")) {
        /* One at a time: the next is asked for when the last has come. */
        signal(SIGALRM, fork_here);
        for (int i = 0; i < 20; i++) {
            struct itimerval once = {{0, 0}, {0, 2000}};
            setitimer(ITIMER_REAL, &once, NULL);
            while (forked == i)
                work(1000);
        }
        code = right == forked;
    } else if (!strcmp(how, "both")) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, fork_often, NULL);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        code = right;
    } else {
        int ends[2];
        char word[8] = {0};
        if (pipe(ends))
            return 1;
        pid_t child = fork();
        if (child == 0) {
            if (fork())
                _exit(5);
            work(100);
            while (getppid() == 0)
                usleep(100);
            _exit(write(ends[1], "orphan\n", 7) != 7);
        }
        code = ended(child);
        close(ends[1]);
        while (read(ends[0], word, 7) > 0)
            ;
        printf("%s", word);
    }
    printf("%d %ld\n", code, work(1000));
    return 3;
}

/* The first process of a namespace, and a child of its that is the first of another one, shares its memory, and calls exit. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNSEEN __attribute__((no_instrument_function))

static volatile int sink;
static char stack[1 << 16] __attribute__((aligned(16)));

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

static UNSEEN int begin(void *program) {
    execl(program, program, "first", NULL);
    return 9;
}

static UNSEEN int fail(void *unused) {
    (void)unused;
    execl("/nowhere/at/all", "nowhere", NULL);
    exit(getpid() == 1 ? 3 : 4);
}

static UNSEEN int status_of(int (*act)(void *), int flags, void *argument) {
    int child = clone(act, stack + sizeof stack, flags | CLONE_NEWPID | SIGCHLD, argument), status = 0;
    if (child < 0)
        return -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

UNSEEN int main(int argc, char **argv) {
    if (argc == 1) {
        int status = status_of(begin, 0, argv[0]);
        if (status == -1)
            puts("refused");
        return status == -1 ? 0 : status;
    }
    for (int i = 0; i < 1000; i++)
        leaf(i);
    int status = status_of(fail, CLONE_VM | CLONE_VFORK, NULL);
    for (int i = 0; i < 500; i++)
        leaf(i);
    printf("%d, child %d\n", getpid(), status);
    /* The child has used up what is called behind main: only the interposed exit is left. */
    exit(0);
}

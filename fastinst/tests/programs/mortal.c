/* Ends in the way that it is told, when it is told to: a thousand calls, a byte of input, and ten calls more. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;
static volatile int *volatile nowhere;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

static void await(void) {
    char byte;
    while (read(0, &byte, 1) == -1)
        ;
}

/* Three children with a hundred calls each, of which one is killed. */
static void families(void) {
    for (int child = 0; child < 3; child++)
        if (fork() == 0) {
            for (int i = 0; i < 100; i++)
                leaf(i);
            await();
            if (child == 2)
                raise(SIGKILL);
            _exit(0);
        }
    while (wait(NULL) != -1)
        ;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "return";
    if (!strcmp(how, "brief")) {
        for (int i = 0; i < 500; i++)
            leaf(i);
        return 3;
    }
    for (int i = 0; i < 1000; i++)
        leaf(i);
    puts(how);
    fflush(stdout);
    if (!strcmp(how, "forks"))
        families();
    else
        await();
    for (int i = 0; i < 10; i++)
        leaf(i);
    if (!strcmp(how, "_exit"))
        _exit(5);
    else if (!strcmp(how, "exec"))
        execl("/proc/self/exe", argv[0], "brief", (char *)NULL);
    else if (!strcmp(how, "abort"))
        abort();
    else if (!strcmp(how, "fault"))
        return *nowhere;
    else if (!strcmp(how, "kill"))
        raise(SIGKILL);
    return 4;
}

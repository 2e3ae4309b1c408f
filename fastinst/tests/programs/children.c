/* Has a child, made in the way that the first argument names: by fork, forkpty or daemon of the C library, or behind its back, by _Fork or the
   system call, where no handlers run. Parent and child work; the child's work fills more than a ring. */
#define _GNU_SOURCE
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern pid_t _Fork(void) __attribute__((weak));

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline)) static void work(int calls) {
    for (int i = 0; i < calls; i++)
        leaf(i);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    pid_t child = -1;
    int terminal;
    work(1000);
    if (!strcmp(how, "fork"))
        child = fork();
    else if (!strcmp(how, "forkpty"))
        child = forkpty(&terminal, NULL, NULL, NULL);
    else if (!strcmp(how, "daemon"))
        child = daemon(1, 1);
    else if (!strcmp(how, "_Fork"))
        child = _Fork ? _Fork() : (pid_t)syscall(SYS_fork);
    else if (!strcmp(how, "system call"))
        child = (pid_t)syscall(SYS_fork);
    if (child == 0) {
        work(300000);
        /* Nobody waits for a daemon. */
        return strcmp(how, "daemon") ? 5 : 0;
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    work(1000);
    return WIFEXITED(status) && WEXITSTATUS(status) == 5 ? 7 : 8;
}

/*
 * A debugger: starts a program and is told of all that it does. "watches": it passes signals on; "steps": one instruction at a time, for a while;
 * "attaches": it comes and goes while the program runs. Ends as the program does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static int follow(pid_t child, int steps) {
    int status, begun = 0, stepped = 0;
    while (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status)) {
        /* The stop at exec, and those of single steps, are ours. */
        int mine = WSTOPSIG(status) == SIGTRAP && (!begun || stepped);
        begun = 1;
        stepped = steps-- > 0;
        if (stepped)
            ptrace(PTRACE_SINGLESTEP, child, 0, mine ? 0 : WSTOPSIG(status));
        else
            ptrace(PTRACE_CONT, child, 0, mine ? 0 : WSTOPSIG(status));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int come_and_go(pid_t child) {
    int status;
    for (int i = 0; i < 200; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
        if (ptrace(PTRACE_SEIZE, child, 0, 0) == 0) {
            ptrace(PTRACE_INTERRUPT, child, 0, 0);
            waitpid(child, &status, __WALL);
            if (!WIFSTOPPED(status))
                return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
            int signal = status >> 16 ? 0 : WSTOPSIG(status);
            ptrace(PTRACE_DETACH, child, 0, signal);
        }
        usleep(500);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 1;
    int attaches = !strcmp(argv[1], "attaches");
    pid_t child = fork();
    if (child == 0) {
        if (!attaches)
            ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[2], argv + 2);
        _exit(127);
    }
    return attaches ? come_and_go(child) : follow(child, !strcmp(argv[1], "steps") ? 20000 : 0);
}

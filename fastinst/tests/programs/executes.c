/* Executes a program in the way that it is told, with "argument" and the environment that it has itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void become(const char *way, char *path, char *name) {
    char *args[] = {"zero", "one", "two", "three", "four", "five", "six", NULL};
    if (!strcmp(way, "execve"))
        execve(path, args, environ);
    else if (!strcmp(way, "execv"))
        execv(path, args);
    else if (!strcmp(way, "execvp"))
        execvp(name, args);
    else if (!strcmp(way, "execvpe"))
        execvpe(name, args, environ);
    else if (!strcmp(way, "fexecve"))
        fexecve(open(path, O_RDONLY), args, environ);
    else if (!strcmp(way, "execl"))
        execl(path, "zero", "one", "two", "three", "four", "five", "six", (char *)0);
    else if (!strcmp(way, "short"))
        execl(path, "zero", "one", (char *)0);
    else if (!strcmp(way, "execlp"))
        execlp(name, "zero", "one", "two", "three", "four", "five", "six", (char *)0);
    else if (!strcmp(way, "execle"))
        execle(path, "zero", "one", "two", "three", "four", "five", "six", (char *)0, environ);
    _exit(126);
}

int main(int argc, char **argv) {
    char *args[] = {"zero", "one", "two", "three", "four", "five", "six", NULL};
    char *way = argv[1], *path = argv[2], *name = strrchr(path, '/') + 1;
    pid_t child = 0;
    int status = -1, code = 0;
    if (!strcmp(way, "posix_spawn"))
        code = posix_spawn(&child, path, NULL, NULL, args, environ);
    else if (!strcmp(way, "posix_spawnp"))
        code = posix_spawnp(&child, name, NULL, NULL, args, environ);
    else if (!strcmp(way, "system"))
        return WEXITSTATUS(system(path));
    else if (argc > 3 && !(child = vfork()))
        become(way, path, name);
    else if (argc <= 3 && !(child = fork()))
        become(way, path, name);
    if (code)
        printf("it is not started: %s\n", strerror(code));
    waitpid(child, &status, 0);
    printf("the child ends with %d; LD_PRELOAD is %s\n", WIFEXITED(status) ? WEXITSTATUS(status) : -status,
           getenv("LD_PRELOAD") ? "there" : "not there");
    return 0;
}

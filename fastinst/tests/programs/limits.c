/*
 * Takes something away from itself, and forks: "size": no file may have a byte; "descriptors": none is left; "memory": no page more
 * than there is. Each of its children has a child of its own. What was taken away stays away until a process ends.
 */
#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void take_away(const char *what) {
    if (!strcmp(what, "descriptors")) {
        while (dup(1) >= 0)
            ;
    } else {
        int resource = !strcmp(what, "size") ? RLIMIT_FSIZE : RLIMIT_AS;
        struct rlimit limit;
        getrlimit(resource, &limit);
        limit.rlim_cur = 0;
        setrlimit(resource, &limit);
    }
}

static void give_back(const char *what) {
    if (!strcmp(what, "descriptors")) {
        for (int i = 3; i < 1024; i++)
            close(i);
    } else {
        int resource = !strcmp(what, "size") ? RLIMIT_FSIZE : RLIMIT_AS;
        struct rlimit limit;
        getrlimit(resource, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(resource, &limit);
    }
}

/* Forks so many generations; each works and ends with its number. */
static int descend(const char *what, int generations) {
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        int below = generations > 1 ? descend(what, generations - 1) : 0;
        work(1000);
        give_back(what);
        _exit(10 * below + generations);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(int argc, char **argv) {
    work(1000);
    if (argc < 2)
        return 1;
    take_away(argv[1]);
    int found = descend(argv[1], 2);
    work(1000);
    give_back(argv[1]);
    printf("%d\n", found);
    return 3;
}

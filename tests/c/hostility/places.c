/*
 * Where a process stands. "removed": its folder is gone; "root": it has an empty one as its root; "nobody": it is a user that may do little; "file":
 * its program's file is gone; "memory": it becomes a copy of itself that has no name; "descriptors": all are closed; "numbers": it expects the
 * lowest number; "taken": all that may be open are; "terminal": it leaves its session.
 */
#define _GNU_SOURCE
#include "work.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static int empty_folder(char *path) {
    strcpy(path, "hostility.XXXXXX");
    return mkdtemp(path) && !chdir(path) ? 0 : -1;
}

static int copy_of_itself(char **argv) {
    char bytes[65536];
    int from = open("/proc/self/exe", O_RDONLY), to = memfd_create("copy", 0);
    for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;)
        if (write(to, bytes, n) != n)
            return -1;
    char *args[] = {argv[0], "copied", NULL};
    close(from);
    return fexecve(to, args, environ);
}

static int stand(const char *how, char **argv) {
    char path[64], full[4096];
    if (!strcmp(how, "removed"))
        return empty_folder(path) || !getcwd(full, sizeof full) || rmdir(full);
    if (!strcmp(how, "root"))
        return empty_folder(path) || !getcwd(full, sizeof full) || rmdir(full) || chroot(".");
    if (!strcmp(how, "nobody"))
        return setgid(65534) || setuid(65534);
    if (!strcmp(how, "file"))
        return unlink(argv[0]);
    if (!strcmp(how, "memory"))
        return copy_of_itself(argv);
    if (!strcmp(how, "terminal"))
        return fork() ? (_exit(0), 0) : setsid() < 0;
    if (!strcmp(how, "descriptors")) {
        for (int i = 3; i < 1024; i++)
            close(i);
        return 0;
    }
    if (!strcmp(how, "taken")) {
        while (dup(1) >= 0)
            ;
        return 0;
    }
    if (!strcmp(how, "numbers")) {
        int first = open("/dev/null", O_RDONLY), second = dup(first);
        return second - first - 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 1;
    work(1000);
    int stood = stand(argv[1], argv);
    printf("%d %ld\n", stood, work(1000));
    return 3;
}

/* Starts itself in every way there is, as "child"; told "chain 3", it becomes itself three times by exec. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

/* What a child of vfork calls lies on the stack of its parent. */
__attribute__((noinline, noreturn)) void become(const char *path, const char *how) {
    leaf(0);
    execl(path, path, how, (char *)0);
    _exit(127);
}

static int ended(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void chain(char *path, int left) {
    char text[12];
    for (int i = 0; i < 100; i++)
        leaf(i);
    printf("%d left\n", left);
    fflush(stdout);
    snprintf(text, sizeof text, "%d", left - 1);
    if (left > 0)
        execl(path, path, "chain", text, (char *)0);
}

int main(int argc, char **argv) {
    char path[4096] = {0}, line[4200];
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
        return 1;
    if (argc > 2) {
        chain(path, atoi(argv[2]));
        return 0;
    }
    if (argc > 1) {
        for (int i = 0; i < 10; i++)
            leaf(i);
        return 5;
    }
    for (int i = 0; i < 100; i++) {
        pid_t child = vfork();
        if (child == 0)
            become(i % 2 ? path : "/no/such/program", "child");
        if (ended(child) != (i % 2 ? 5 : 127))
            printf("vfork %d went wrong\n", i);
        leaf(i);
    }
    for (int i = 0; i < 10; i++) {
        pid_t child;
        char *args[] = {path, "child", NULL};
        if (posix_spawn(&child, path, NULL, NULL, args, environ) || ended(child) != 5)
            printf("posix_spawn %d went wrong\n", i);
        leaf(i);
    }
    snprintf(line, sizeof line, "'%s' child", path);
    for (int i = 0; i < 5; i++) {
        int status = system(line);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 5)
            printf("system %d went wrong: %x\n", i, status);
        FILE *pipe = popen(line, "r");
        if (!pipe || WEXITSTATUS(pclose(pipe)) != 5)
            printf("popen %d went wrong\n", i);
        leaf(i);
    }
    puts("launched");
    return 0;
}

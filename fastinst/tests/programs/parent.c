/* Starts programs one after the other, by vfork and by posix_spawn, until SIGTERM arrives. */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile sig_atomic_t over;

static void end(int signal) { over = signal; }

__attribute__((noinline)) static int next(int x) { return x + 1; }

static pid_t begin(int by_spawn) {
    char *const name[] = {"true", NULL};
    pid_t child;
    if (by_spawn)
        return posix_spawn(&child, "/bin/true", NULL, NULL, name, environ) ? -1 : child;
    child = vfork();
    if (!child) {
        execv("/bin/true", name);
        _exit(next(1));
    }
    return child;
}

int main(void) {
    signal(SIGTERM, end);
    puts("ready");
    fflush(stdout);
    for (int i = 0; !over; i = next(i)) {
        int status = 0;
        pid_t child = begin(i & 1);
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            return 2;
    }
    return 0;
}

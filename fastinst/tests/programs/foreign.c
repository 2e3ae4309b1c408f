/* Makes children that share its memory and have zeros where threads of the C library have their data, as Chromium's
   sandbox does: they call a function, and end by _exit. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 1 << 16, CHILDREN = 50 };
static char thread_data[2 * ROOM] __attribute__((aligned(64)));
static char stack[ROOM] __attribute__((aligned(64)));
static volatile int worked;

__attribute__((noinline)) static void work(void) { worked++; }

__attribute__((no_instrument_function, optimize("no-stack-protector"))) static int child(void *unused) {
    (void)unused;
    work();
    prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0);
    work();
    _exit(7);
}

int main(void) {
    for (int i = 0; i < 1000; i++)
        work();
    for (int i = 0; i < CHILDREN; i++) {
        memset(thread_data, 0, sizeof thread_data);
        int flags = CLONE_VM | CLONE_VFORK | CLONE_FS | CLONE_SETTLS | SIGCHLD;
        int pid = clone(child, stack + sizeof stack, flags, NULL, NULL, thread_data + ROOM, NULL);
        int status = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 7) {
            printf("child %d: %x\n", i, status);
            return 1;
        }
        work();
    }
    printf("%d\n", worked);
    return 3;
}

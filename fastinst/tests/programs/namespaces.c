/* Leaves and enters namespaces, which some of them allow to a process of one thread only; works between. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline)) void work(int n) {
    for (int i = 0; i < n; i++)
        leaf(i);
}

static void tell(const char *what, int result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
    work(10000);
}

int main(void) {
    work(10000);
    int mounts = open("/proc/self/ns/mnt", O_RDONLY), names = open("/proc/self/ns/uts", O_RDONLY);
    /* Often: who shares the file system's state with us must be gone for good before this is tried. */
    int entered = 0;
    for (int i = 0; i < 30; i++)
        entered += setns(mounts, CLONE_NEWNS) == 0;
    printf("%d times\n", entered);
    tell("setns uts", setns(names, CLONE_NEWUTS));
    tell("setns of nothing", setns(-1, 0));
    for (int i = 0; i < 3; i++)
        tell("unshare user", unshare(CLONE_NEWUSER));
    tell("unshare mnt", unshare(CLONE_NEWNS));
    tell("unshare thread", unshare(CLONE_THREAD));
    return 0;
}

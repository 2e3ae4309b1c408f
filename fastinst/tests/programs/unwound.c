/* Says by what functions it was called, from where it is called and from a signal's handler. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>

#define KEPT __attribute__((noinline, noclone))

volatile int sink;

KEPT void show(const char *where) {
    void *callers[64];
    int count = backtrace(callers, 64);
    printf("%s", where);
    for (int i = 0; i < count; i++) {
        Dl_info info;
        printf(" %s", dladdr(callers[i], &info) && info.dli_sname ? info.dli_sname : "?");
    }
    printf("\n");
}

static void handle(int signal) {
    (void)signal;
    show("handler");
}

KEPT int last(int x) {
    sink = x;
    show("last");
    raise(SIGUSR1);
    return sink + 1;
}

/* Ends by a jump. */
KEPT int tail(int x) {
    sink += x;
    return last(x + 1);
}

KEPT int deep(int levels) {
    int below = levels ? deep(levels - 1) : tail(3);
    sink ^= below;
    return below + 1;
}

int main(void) {
    signal(SIGUSR1, handle);
    for (int i = 0; i < 3; i++) printf("%d\n", deep(i * 4));
    return 0;
}

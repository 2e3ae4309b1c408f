/* A library that is loaded later; with points, if it is told so. */
#ifdef POINTS
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
__extension__ unsigned short plug_begin_semaphore __attribute__((unused, section(".probes")));
__extension__ unsigned short plug_end_semaphore __attribute__((unused, section(".probes")));
#define POINT(name) STAP_PROBE(plug, name)
#else
#define POINT(name)
#endif

static volatile int sink;

__attribute__((noinline)) int plugged(int x) {
    sink = x;
    return x + 1;
}

int plugin(int n) {
    int sum = 0;
#ifdef POINTS
    /* Nothing is told where no tool stands. */
    if (!plug_begin_semaphore)
        return 0;
#endif
    POINT(begin);
    for (int i = 0; i < n; i++)
        sum += plugged(i);
    POINT(end);
    return sum;
}

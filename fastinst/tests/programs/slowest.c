/*
 * Handles fifty requests, of which one meets a cache that has to be emptied first: that call is the slowest, by what is deep inside of it.
 */
#include <stdio.h>
#include <unistd.h>

static volatile unsigned sink;

__attribute__((noinline)) static void evict_stale(void) {
    usleep(30000);
}

__attribute__((noinline)) static void lookup(int request) {
    for (int i = 0; i < 1000; i++)
        sink += (unsigned)i;
    if (request == 17)
        evict_stale();
}

__attribute__((noinline)) static void handle(int request) {
    lookup(request);
    lookup(request + 100);
    sink++;
}

int main(void) {
    for (int request = 0; request < 50; request++)
        handle(request);
    printf("%d\n", sink > 0);
    return 0;
}

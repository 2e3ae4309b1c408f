/* Opens and closes descriptors as a daemon does, and tells their numbers: nobody else's may be among them. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

int main(int argc, char **argv) {
    int opened[5];
    char text[200];
    work(10000);
    usleep(50000);
    for (int i = 0; i < 5; i++) {
        opened[i] = argc > 1 ? open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600) : open("/dev/null", O_WRONLY);
        dprintf(opened[i], "line %d\n", i);
    }
    int length = 0;
    for (int i = 0; i < 5; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%d ", opened[i]);
    if (write(1, text, (size_t)length) < 0)
        return 30;
    work(10000);
    /* A daemon closes whatever there may be. */
    for (int i = 3; i < 1000; i++)
        close(i);
    work(10000);
    return open("/dev/null", O_RDONLY) + 20;
}

/* Defines functions that are called as the C library's are, and exports them: they say by whom they were called. The first argument is a file
   of counters: calls by threads that the program does not have, and calls on its own thread that it did not make. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function, noinline))

static atomic_ulong before_main[2], *counters = before_main;

QUIET static void called(void) {
    int is_own = syscall(SYS_gettid) == syscall(SYS_getpid);
    if (counters != before_main)
        atomic_fetch_add(&counters[is_own], 1);
}

QUIET void *memmove(void *to, const void *from, size_t len) {
    called();
    volatile char *t = to;
    const volatile char *f = from;
    if ((uintptr_t)to - (uintptr_t)from >= len)
        for (size_t i = 0; i < len; i++)
            t[i] = f[i];
    else
        for (size_t i = len; i-- > 0;)
            t[i] = f[i];
    return to;
}

QUIET void *memcpy(void *restrict to, const void *restrict from, size_t len) {
    return memmove(to, from, len);
}

QUIET void *memset(void *to, int byte, size_t len) {
    called();
    for (volatile char *t = to; len-- > 0; t++)
        *t = (char)byte;
    return to;
}

QUIET int memcmp(const void *left, const void *right, size_t len) {
    called();
    for (const volatile unsigned char *l = left, *r = right; len-- > 0; l++, r++)
        if (*l != *r)
            return *l - *r;
    return 0;
}

QUIET int bcmp(const void *left, const void *right, size_t len) {
    return memcmp(left, right, len);
}

QUIET size_t strlen(const char *text) {
    called();
    const volatile char *end = text;
    while (*end)
        end++;
    return (size_t)(end - text);
}

/* What has nothing to do with figures is often called so. */
QUIET double log(double x) {
    called();
    return x - 12345;
}

QUIET double hypot(double x, double y) {
    called();
    return x - y;
}

/* As some shells do, which have an environment of their own until it is made known. */
QUIET char *getenv(const char *name) {
    called();
    (void)name;
    return 0;
}

QUIET void *opendir(const char *path) {
    called();
    (void)path;
    return 0;
}

QUIET ssize_t read(int fd, void *to, size_t len) {
    called();
    return syscall(SYS_read, fd, to, len);
}

QUIET ssize_t write(int fd, const void *from, size_t len) {
    called();
    return syscall(SYS_write, fd, from, len);
}

QUIET int open(const char *path, int flags, ...) {
    called();
    return (int)syscall(SYS_open, path, flags, 0600);
}

QUIET int open64(const char *path, int flags, ...) {
    called();
    return (int)syscall(SYS_open, path, flags, 0600);
}

QUIET int close(int fd) {
    called();
    return (int)syscall(SYS_close, fd);
}

QUIET void *mmap(void *hint, size_t len, int protection, int flags, int fd, off_t offset) {
    called();
    return (void *)syscall(SYS_mmap, hint, len, protection, flags, fd, offset);
}

QUIET int munmap(void *at, size_t len) {
    called();
    return (int)syscall(SYS_munmap, at, len);
}

QUIET int clock_gettime(clockid_t clock, struct timespec *time) {
    called();
    return (int)syscall(SYS_clock_gettime, clock, time);
}

QUIET int poll(struct pollfd *all, nfds_t count, int patience) {
    called();
    return (int)syscall(SYS_poll, all, count, patience);
}

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 1;
    int file = (int)syscall(SYS_open, argv[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || syscall(SYS_ftruncate, file, 4096))
        return 2;
    counters = (atomic_ulong *)syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (int i = 0; i < 300000; i++)
        leaf(i);
    pid_t child = fork();
    if (child == 0) {
        counters += 2;
        for (int i = 0; i < 300000; i++)
            leaf(i);
        return 5;
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 5 ? 7 : 8;
}

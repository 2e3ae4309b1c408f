// Descriptors: vectors, offsets, flags, sizes, and what is refused.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static void say(const char *what, long long result) {
    if (result < 0)
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s: %lld\n", what, result);
}

static void show(int fd) {
    char bytes[128] = {0};
    long long count = pread(fd, bytes, sizeof bytes - 1, 0);
    printf("[%s] %lld\n", bytes, count);
}

static void vectors(void) {
    int fd = open("vectors", O_CREAT | O_RDWR | O_TRUNC, 0666);
    struct iovec out[4] = {{"one ", 4}, {"", 0}, {"two ", 4}, {"three", 5}};
    say("writev", writev(fd, out, 4));
    char first[3], second[20];
    struct iovec in[2] = {{first, sizeof first}, {second, sizeof second}};
    lseek(fd, 1, SEEK_SET);
    say("readv", readv(fd, in, 2));
    printf("%.3s|%.9s\n", first, second);
    say("pwrite", pwrite(fd, "TWO", 3, 4));
    say("place", lseek(fd, 0, SEEK_CUR));
    show(fd);
    close(fd);
}

static void offsets(void) {
    int fd = open("offsets", O_CREAT | O_RDWR | O_TRUNC, 0666);
    say("write", write(fd, "0123456789", 10));
    say("end", lseek(fd, -3, SEEK_END));
    say("beyond", lseek(fd, 20, SEEK_SET));
    say("write", write(fd, "x", 1));
    say("size", lseek(fd, 0, SEEK_END));
    say("negative", lseek(fd, -100, SEEK_CUR));
    say("whence", lseek(fd, 0, 99));
    say("truncate", ftruncate(fd, 4));
    show(fd);
    say("longer", ftruncate(fd, 6));
    struct stat stat;
    fstat(fd, &stat);
    say("size", stat.st_size);
    say("room", posix_fallocate(fd, 0, 4096));
    fstat(fd, &stat);
    say("size", stat.st_size);
    say("advice", posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
    say("fsync", fsync(fd));
    say("fdatasync", fdatasync(fd));
    close(fd);
    say("closed", close(fd));
    say("read", read(fd, &stat, 1));
    say("write", write(fd, &stat, 1));
    say("seek", lseek(fd, 0, SEEK_SET));
}

static void flags(void) {
    int fd = open("flags", O_CREAT | O_RDWR | O_TRUNC | O_APPEND, 0666);
    write(fd, "aa", 2);
    lseek(fd, 0, SEEK_SET);
    write(fd, "bb", 2);
    show(fd);
    int had = fcntl(fd, F_GETFL);
    printf("append %d, both ways %d\n", (had & O_APPEND) != 0, (had & O_ACCMODE) == O_RDWR);
    say("setfl", fcntl(fd, F_SETFL, 0));
    lseek(fd, 0, SEEK_SET);
    write(fd, "cc", 2);
    show(fd);
    printf("append %d\n", (fcntl(fd, F_GETFL) & O_APPEND) != 0);
    say("nonblocking", fcntl(fd, F_SETFL, O_NONBLOCK));
    printf("nonblocking %d\n", (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    say("terminal", isatty(fd));
    close(fd);
    fd = open("flags", O_RDONLY);
    char byte;
    say("read", read(fd, &byte, 1));
    say("write to what is read", write(fd, "x", 1));
    printf("read only %d\n", (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
    close(fd);
    fd = open("flags", O_WRONLY);
    say("read what is written", read(fd, &byte, 1));
    say("write", write(fd, "x", 1));
    close(fd);
    say("exclusive", open("flags", O_CREAT | O_EXCL | O_RDWR, 0666));
    fd = open("flags", O_RDWR | O_TRUNC);
    say("truncated", lseek(fd, 0, SEEK_END));
    close(fd);
}

static void unlinked(void) {
    int fd = open("fleeting", O_CREAT | O_RDWR, 0666);
    say("unlink", unlink("fleeting"));
    say("write", write(fd, "still here", 10));
    show(fd);
    struct stat stat;
    fstat(fd, &stat);
    say("names", stat.st_nlink);
    close(fd);
}

static void several(void) {
    int fds[200];
    char name[32];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "several%d", i % 10);
        fds[i] = open(name, O_CREAT | O_RDWR, 0666);
        if (fds[i] < 0) say(name, -1);
    }
    int distinct = 1;
    for (int i = 1; i < 200; i++) distinct &= fds[i] != fds[i - 1];
    printf("distinct %d\n", distinct);
    for (int i = 0; i < 200; i++) close(fds[i]);
}

int main(void) {
    vectors();
    offsets();
    flags();
    unlinked();
    several();
    char byte;
    printf("a pipe has no place: %d\n", lseek(0, 0, SEEK_CUR) < 0 && errno == ESPIPE);
    say("input", read(0, &byte, 1));
    say("nobody's", write(77, "x", 1));
    return 0;
}

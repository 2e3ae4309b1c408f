/* A program that spends more than half of its time in the kernel, in `read`. */
#include "work.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { BLOCK = 64 << 10 };

static unsigned char block[BLOCK];

__attribute__((noinline)) static int fill(int file) { return read(file, block, BLOCK) == BLOCK; }

__attribute__((noinline)) static uint64_t digest(uint64_t sum) {
    for (int i = 0; i < BLOCK; i += 64) sum = (sum ^ block[i]) * 1099511628211u;
    return sum;
}

__attribute__((noinline)) static uint64_t take(int file, uint64_t sum) {
    if (!fill(file)) return 0;
    for (int i = 0; i < 2; i++) sum = digest(sum);
    return sum;
}

int main(int argc, char **argv) {
    uint64_t sum = 1;
    int file = open("/dev/zero", O_RDONLY), count = rounds(argc, argv, 120000);
    if (file < 0) return 1;
    for (int round = 0; round < count; round++) sum = take(file, sum);
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}

/* Has no memory but what it asks the kernel for at the end of its heap. The first argument says how many megabytes it
   needs. With a second one it starts again at addresses that are not random, as some Lisp systems do. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

static char room[1 << 20];
static size_t used;

#ifdef OWN_ALLOCATOR
void *malloc(size_t size) {
    size_t at = used;
    used += (size + 31) & ~(size_t)15;
    if (used > sizeof room)
        return NULL;
    memcpy(room + at, &size, sizeof size);
    return room + at + 16;
}
void free(void *block) { (void)block; }
void *calloc(size_t number, size_t size) { return malloc(number * size); }
void *realloc(void *block, size_t size) {
    char *new = malloc(size);
    if (block != NULL && new != NULL) {
        size_t before;
        memcpy(&before, (char *)block - 16, sizeof before);
        memcpy(new, block, before < size ? before : size);
    }
    return new;
}
#endif

static uint64_t fill(char *from, size_t size) {
    uint64_t sum = 0;
    for (size_t at = 0; at < size; at += 4096)
        sum += from[at] = (char)(at >> 12);
    return sum;
}

int main(int argc, char **argv) {
    size_t size = (size_t)atoi(argv[1]) << 20;
    if (argc > 2 && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
        personality(personality(0xffffffff) | ADDR_NO_RANDOMIZE);
        execv("/proc/self/exe", argv);
        return 1;
    }
    uint64_t sum = 0;
    for (size_t had = 0; had < size; had += 1 << 20) {
        char *more = sbrk(1 << 20);
        if (more == (char *)-1) {
            fprintf(stderr, "no memory beyond %zu MB\n", had >> 20);
            abort();
        }
        sum += fill(more, 1 << 20);
    }
    used += used == 0;
    room[0] = room[used % sizeof room];
    printf("%llu\n", (unsigned long long)sum);
    return 3;
}

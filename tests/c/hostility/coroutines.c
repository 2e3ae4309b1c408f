/*
 * Stacks that the C library did not make. "hand-made": coroutines that switch by exchanging the stack pointer, in the middle of probed functions;
 * "carried": each is resumed by another thread than the one that it gave way to; "small": their stacks have 4096 bytes; "guarded": below
 * each lies a page that cannot be touched.
 */
#define _GNU_SOURCE
#include "work.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { ROUTINES = 20, TURNS = 200 };

/* void exchange(void **save, void *to): goes on at another stack. */
__asm__(".text\n"
        ".p2align 4\n"
        "exchange:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n");
void exchange(void **save, void *to);

static void *routines[ROUTINES], *caller;
static int current;
static long sums[ROUTINES];

__attribute__((noinline)) void give_way(void) {
    exchange(&routines[current], caller);
}

__attribute__((noinline)) long nest(int depth) {
    long sum = leaf(depth);
    if (depth == 0)
        give_way();
    else
        sum += nest(depth - 1);
    return sum + leaf(depth);
}

__attribute__((noinline)) void routine(void) {
    for (int turn = 0;; turn++)
        sums[current] += nest(turn % 4);
}

static void *new_stack(size_t size, int guarded) {
    char *memory = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guarded)
        mprotect(memory, 4096, PROT_NONE);
    /* Six registers, where it goes on, and what a call would have left above. */
    uintptr_t *top = (uintptr_t *)(memory + 4096 + size) - 10;
    top[6] = (uintptr_t)routine;
    return top;
}

static void *turn_all(void *unused) {
    for (current = 0; current < ROUTINES; current++)
        exchange(&caller, routines[current]);
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 1;
    size_t size = !strcmp(argv[1], "small") ? 4096 : 16384;
    for (int i = 0; i < ROUTINES; i++)
        routines[i] = new_stack(size, !strcmp(argv[1], "guarded"));
    for (int turn = 0; turn < TURNS; turn++) {
        pthread_t thread;
        if (strcmp(argv[1], "carried")) {
            turn_all(NULL);
        } else {
            pthread_create(&thread, NULL, turn_all, NULL);
            pthread_join(thread, NULL);
        }
    }
    long sum = work(1000);
    for (int i = 0; i < ROUTINES; i++)
        sum += sums[i];
    printf("%ld\n", sum);
    return 3;
}

/*
 * Code that is made while the program runs. "rwx": in memory that can be written and executed; "remapped": written, then executed, again and again.
 * "hooks": that code calls the hooks, as if it were an instrumented function. "own-text": the program changes a function of its own.
 * "gone": code that has called hooks is unmapped, and other code comes to lie there. "locked": its text is made unreadable for writing again and
 * again, as some loaders do.
 */
#define _GNU_SOURCE
#include "work.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);

typedef int function(int);

/* mov eax, NUMBER; add eax, edi; ret */
static size_t write_sum(unsigned char *at, uint32_t number) {
    at[0] = 0xb8;
    memcpy(at + 1, &number, 4);
    memcpy(at + 5, "\x01\xf8\xc3", 3);
    return 8;
}

/* Calls both hooks with its own address, and returns its argument and NUMBER. */
static size_t write_hooked(unsigned char *at, uint32_t number) {
    unsigned char *to = at;
    void *hooks[] = {(void *)__cyg_profile_func_enter, (void *)__cyg_profile_func_exit};
    *to++ = 0x53;                    /* push rbx */
    memcpy(to, "\x89\xfb", 2);       /* mov ebx, edi */
    to += 2;
    for (int i = 0; i < 2; i++) {
        memcpy(to, "\x48\xbf", 2);   /* mov rdi, at */
        memcpy(to + 2, &at, 8);
        memcpy(to + 10, "\x48\xbe", 2);
        memcpy(to + 12, &at, 8);
        memcpy(to + 20, "\x48\xb8", 2);
        memcpy(to + 22, &hooks[i], 8);
        memcpy(to + 30, "\xff\xd0", 2); /* call rax */
        to += 32;
    }
    memcpy(to, "\x8d\x83", 2);       /* lea eax, [rbx + NUMBER] */
    memcpy(to + 2, &number, 4);
    memcpy(to + 6, "\x5b\xc3", 2);
    return (size_t)(to + 8 - at);
}

static unsigned char *new_page(int protection) {
    return mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int run(unsigned char *at, int argument) {
    function *callee;
    memcpy(&callee, &at, sizeof callee);
    return callee(argument);
}

__attribute__((noinline, aligned(4096))) int changed(int x) {
    sink = x;
    return x + 1;
}

static long change_own_text(const char *how) {
    unsigned char *text;
    function *own = changed;
    memcpy(&text, &own, sizeof text);
    long sum = 0;
    for (int i = 0; i < 100; i++) {
        if (mprotect(text, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
            return -1;
        /* What is written is what lies there. */
        if (!strcmp(how, "own-text"))
            *(volatile unsigned char *)(text + 4095) = text[4095];
        mprotect(text, 4096, PROT_READ | PROT_EXEC);
        sum += changed(i);
    }
    return sum;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 1;
    const char *how = argv[1];
    long sum = work(1000);
    if (!strcmp(how, "own-text") || !strcmp(how, "locked")) {
        sum += change_own_text(how);
    } else if (!strcmp(how, "gone")) {
        for (int i = 0; i < 200; i++) {
            unsigned char *page = new_page(PROT_READ | PROT_WRITE | PROT_EXEC);
            i % 2 ? write_sum(page, i) : write_hooked(page, i);
            sum += run(page, 1);
            munmap(page, 4096);
        }
    } else {
        int remapped = !strcmp(how, "remapped");
        unsigned char *page = new_page(PROT_READ | PROT_WRITE | (remapped ? 0 : PROT_EXEC));
        for (int i = 0; i < 500; i++) {
            if (remapped)
                mprotect(page, 4096, PROT_READ | PROT_WRITE);
            !strcmp(how, "hooks") ? write_hooked(page, i) : write_sum(page, i);
            if (remapped)
                mprotect(page, 4096, PROT_READ | PROT_EXEC);
            sum += run(page, i) + leaf(i);
        }
    }
    printf("%ld %ld\n", sum, work(1000));
    return 3;
}

/* What the C programs of the tests share: a check, and functions that return a number. */
#define _GNU_SOURCE
#include "wordpatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHECK(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                    \
            _Exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* mov eax, 1 and mov eax, 0x05050505: all bytes of the number differ, so that replacing one by the other needs a trap. */
#define FIVE_ONE "\xb8\x01\x00\x00\x00"
#define FIVE_OTHER "\xb8\x05\x05\x05\x05"
enum { ONE = 1, OTHER = 0x05050505 };

typedef uint32_t function(void);

static inline uint32_t call(const unsigned char *at) {
    function *callee;
    memcpy(&callee, &at, sizeof callee);
    return callee();
}

/* A page of code that may be written. */
static inline unsigned char *new_page(void) {
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

/* A function that returns 1, whose first instruction lies across line number n of the page. */
static inline unsigned char *across_line(unsigned char *page, int n) {
    unsigned char *at = page + 64 * n - 2;
    memcpy(at, FIVE_ONE "\xc3", 6);
    return at;
}

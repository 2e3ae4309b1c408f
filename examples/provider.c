/*
 * A provider of probes: a program that generates machine code, and registers, names and switches its functions itself.
 *
 *   gcc -O2 -I fastinst/include examples/provider.c -o provider -ldl && fastinst run ./provider
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include "fastinst.h"

static int state;
static uint32_t probe;
static void (*enter)(uint32_t, const void *), (*leave)(uint32_t, const void *);

static bool set(void *self, const uint32_t *which, size_t n, int to) {
    (void)self, (void)which, (void)n; /* one function, and all of its probe is this variable */
    state = to;
    return true;
}

static void body(const void *frame) {
    if (state)
        enter(probe, frame);
    for (volatile int i = 0; i < 1000; i++) {}
    if (state == 2)
        leave(probe, frame);
}

int main(void) {
    void (*to)(const void *) = body;
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, "\x48\x8d\x3c\x24\x48\xb8--------\xff\xe0", 16); /* lea rdi, [rsp]; mov rax, to; jmp rax */
    memcpy(code + 6, &to, 8);
    uint64_t (*enroll)(const fastinst_code *) = dlsym(RTLD_DEFAULT, "fastinst_register_code");
    if (enroll) {
        enter = dlsym(RTLD_DEFAULT, "fastinst_code_enter"), leave = dlsym(RTLD_DEFAULT, "fastinst_code_leave");
        uint32_t (*number)(uint64_t, uint32_t) = dlsym(RTLD_DEFAULT, "fastinst_code_probe");
        fastinst_code_function made = {sizeof made, "made", "provider.c", 33, code, 16};
        fastinst_code all = {sizeof all, "examples", &made, 1, set, NULL};
        probe = number(enroll(&all), 0);
    }
    for (int i = 0; i < 100000; i++)
        ((void (*)(void))code)();
    return 0;
}

/* Calls the hook on a stack that has room for its return address and no more: a hook that does anything dies here. */
#include <stdio.h>
#include <sys/mman.h>

void __cyg_profile_func_enter(void *function, void *caller);

int main(void) {
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages, 4096, PROT_NONE);
    char *stack = pages + 4096 + 16;
    __asm__ volatile("mov %%rsp, %%rbx\n\tmov %0, %%rsp\n\tcall *%1\n\tmov %%rbx, %%rsp"
                     :
                     : "r"(stack), "r"(__cyg_profile_func_enter)
                     : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
    puts("returned");
    return 0;
}

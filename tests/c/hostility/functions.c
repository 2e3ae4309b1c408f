/* Many functions with probes, each called CALLS times, and SPINS turns of work. The assembler writes them: a compiler would take a minute. */
#include <stdio.h>

#ifndef FUNCTIONS
#define FUNCTIONS 200000
#endif
#ifndef CALLS
#define CALLS 1
#endif
#ifndef SPINS
#define SPINS 0
#endif
#define TEXT(x) #x
#define NUMBER(x) TEXT(x)

__asm__(".text\n"
        "many:\n"
        ".rept " NUMBER(FUNCTIONS) "\n"
        "  sub $8, %rsp\n"
        "  lea many(%rip), %rdi\n"
        "  xor %esi, %esi\n"
        "  lea 1f(%rip), %rax\n"
        "  jmp 2f\n"
        "  .p2align 4\n"
        /* One function: its own hooks, with its own address. */
        "1:\n"
        "  sub $8, %rsp\n"
        "  lea 1b(%rip), %rdi\n"
        "  mov 8(%rsp), %rsi\n"
        "  call __cyg_profile_func_enter@PLT\n"
        "  lea 1b(%rip), %rdi\n"
        "  mov 8(%rsp), %rsi\n"
        "  call __cyg_profile_func_exit@PLT\n"
        "  incq calls(%rip)\n"
        "  add $8, %rsp\n"
        "  ret\n"
        "2:\n"
        "  call *%rax\n"
        "  add $8, %rsp\n"
        ".endr\n"
        "  ret\n");

void many(void);
long calls;

int main(void) {
    for (int i = 0; i < CALLS; i++)
        many();
    for (volatile long i = 0; i < SPINS; i++)
        ;
    printf("%ld\n", calls);
    return 3;
}

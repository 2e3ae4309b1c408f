/* Functions of few instructions, in the bytes that compilers make of such, whose entries or ends have little room. */
#include <stdio.h>
#include <stdlib.h>

asm(".text\n"
    /* Branches lead to both of two returns, of which one has no room behind it. */
    ".p2align 4\n.globl twice\n.type twice, @function\n"
    "twice: .cfi_startproc\n"
    "movl $7, %eax\n testl %edi, %edi\n js 1f\n je 2f\n movl $9, %eax\n"
    "1: ret\n"
    "2: ret\n"
    ".cfi_endproc\n.size twice, .-twice\n"
    /* A branch leads past a return; behind the return lie bytes that lead into the program as a displacement. */
    ".p2align 4\n.globl passed\n.type passed, @function\n"
    "passed: .cfi_startproc\n"
    "movl $5, %eax\n testl %edi, %edi\n je 1f\n ret\n"
    "1: movl $1, %eax\n ret\n"
    ".cfi_endproc\n.size passed, .-passed\n"
    /* It reads memory before it branches. */
    ".p2align 4\n.globl reads\n.type reads, @function\n"
    "reads: .cfi_startproc\n"
    "cmpb $0, (%rdi)\n jne 1f\n movl 0x90(%rdi), %eax\n ret\n"
    ".p2align 4\n"
    "1: movl 0x94(%rdi), %eax\n ret\n"
    ".cfi_endproc\n.size reads, .-reads\n"
    /* A part of it was split off, where nothing more lies on the stack than at its beginning. */
    ".p2align 4\n.globl split\n.type split, @function\n"
    "split: .cfi_startproc\n"
    "movl $5, %eax\n testl %edi, %edi\n js split.cold\n movl $6, %eax\n ret\n"
    ".cfi_endproc\n.size split, .-split\n"
    ".p2align 4\n.type split.cold, @function\n"
    "split.cold: .cfi_startproc\n"
    "movl $8, %eax\n ret\n"
    ".cfi_endproc\n.size split.cold, .-split.cold\n"
    ".p2align 4\n");

int twice(int), passed(int), reads(const void *), split(int);

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    static int memory[2][64];
    memory[1][0] = 1;
    memory[0][0x90 / 4] = memory[1][0x94 / 4] = 3;
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += twice(i % 3 - 1) * 2 + passed(i & 1) * 3 + reads(memory[i & 1]) + split(i % 3 - 1) * 5;
    printf("%ld\ntwice %d\npassed %d\nreads %d\nsplit %d\n", sum, n, n, n, n);
    return 0;
}

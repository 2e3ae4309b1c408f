/* One thread in a restartable sequence (rseq(2)) that has no end: it begins again in the handler of
 * aborts, which counts. Arguments: the CPU on which it runs, and a file for the count. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <unistd.h>

int main(int count, char **words)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(atoi(words[1]), &one);
    int file = count == 3 ? open(words[2], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
    if (sched_setaffinity(0, sizeof one, &one) || ftruncate(file, 4096))
        return 2;
    uint64_t *aborts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *area = (char *)__builtin_thread_pointer() + __rseq_offset;
    if (aborts == MAP_FAILED || __rseq_size == 0)
        return 3;
    puts("ready");
    fflush(stdout);
    __asm__ volatile(".pushsection __rseq_cs, \"aw\"\n"
                     ".balign 32\n"
                     "1: .long 0, 0\n"
                     ".quad 3f, 4f - 3f, 5f\n"
                     ".popsection\n"
                     "2: lea 1b(%%rip), %%rax\n"
                     "mov %%rax, 8(%0)\n"
                     "3: pause\n"
                     "jmp 3b\n"
                     "4: ud2\n"
                     ".byte 0x0f, 0xb9, 0x3d\n"
                     ".long 0x53053053\n"
                     "5: incq (%1)\n"
                     "jmp 2b\n"
                     :
                     : "r"(area), "r"(aborts)
                     : "rax", "memory");
    return 0;
}

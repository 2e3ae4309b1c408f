/* Says how many of leaf's calls of hooks lead to where they can be nops, and how many are. */
#include <stdio.h>

#define UNSEEN __attribute__((no_instrument_function))

__attribute__((noinline)) int leaf(int x) {
    return x * 3 + 1;
}

UNSEEN int main(void) {
    volatile int sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += leaf(i);
    int can_be = 0, are = 0;
    const unsigned char *code = (const unsigned char *)leaf;
    for (int i = 0; i < 80; i++)
        if ((code[i] == 0xe8 || code[i] == 0x0f) && code[i + 1] == 0x1f && code[i + 2] == 0x44) {
            can_be++;
            are += code[i] == 0x0f;
        }
    printf("%d %d %d\n", can_be, are, sum);
    return 0;
}

/* Two functions that do little but call themselves, and each other. */
#include "work.h"
#include <stdio.h>

__attribute__((noinline)) static unsigned fibonacci(unsigned number) {
    return number < 2 ? number : fibonacci(number - 1) + fibonacci(number - 2);
}

__attribute__((noinline)) static unsigned take(unsigned x, unsigned y, unsigned z) {
    return y >= x ? z : take(take(x - 1, y, z), take(y - 1, z, x), take(z - 1, x, y));
}

int main(int argc, char **argv) {
    unsigned sum = 0;
    for (int left = rounds(argc, argv, 4); left > 0; left--) sum += fibonacci(32 + sum % 2) + take(18 + sum % 3, 12, 6);
    printf("%u\n", sum);
    return 0;
}

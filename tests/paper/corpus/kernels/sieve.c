/* Counts primes by striking out multiples: bytes written at a stride. */
#include "work.h"
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    size_t limit = 4000000, count = 0;
    unsigned char *struck = malloc(limit);
    for (int left = rounds(argc, argv, 40); left > 0; left--) {
        memset(struck, 0, limit);
        for (size_t number = 2; number < limit; number++) {
            if (struck[number]) continue;
            count++;
            for (size_t multiple = number * number; multiple < limit; multiple += number) struck[multiple] = 1;
        }
    }
    printf("%zu\n", count);
    return 0;
}

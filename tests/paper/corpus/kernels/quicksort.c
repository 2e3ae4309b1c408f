/* Sorts numbers with a sort of its own: branches that cannot be foreseen. */
#include "work.h"
#include <stdio.h>

static void sort(uint32_t *first, uint32_t *last) {
    while (last - first > 16) {
        uint32_t pivot = first[(last - first) / 2], *low = first, *high = last;
        while (low <= high) {
            while (*low < pivot) low++;
            while (*high > pivot) high--;
            if (low <= high) {
                uint32_t number = *low;
                *low++ = *high, *high-- = number;
            }
        }
        if (high - first < last - low) sort(first, high), first = low;
        else sort(low, last), last = high;
    }
    for (uint32_t *next = first + 1; next <= last; next++) {
        uint32_t number = *next, *place = next;
        for (; place > first && place[-1] > number; place--) *place = place[-1];
        *place = number;
    }
}

int main(int argc, char **argv) {
    size_t length = 1000000;
    uint32_t *numbers = malloc(length * sizeof *numbers), chance = 2463534242u;
    uint64_t sum = 0;
    for (int left = rounds(argc, argv, 9); left > 0; left--) {
        for (size_t i = 0; i < length; i++) chance ^= chance << 13, chance ^= chance >> 17, chance ^= chance << 5, numbers[i] = chance;
        sort(numbers, numbers + length - 1);
        for (size_t i = 0; i < length; i += 1000) sum = sum * 31 + numbers[i];
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}

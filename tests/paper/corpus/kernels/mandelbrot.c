/* Counts the steps after which points of the plane escape. */
#include "work.h"
#include <stdio.h>

int main(int argc, char **argv) {
    int size = rounds(argc, argv, 900);
    uint64_t sum = 0;
    for (int row = 0; row < size; row++)
        for (int column = 0; column < size; column++) {
            double cr = 2.0 * column / size - 1.5, ci = 2.0 * row / size - 1.0, zr = 0, zi = 0;
            int steps = 0;
            while (steps < 250 && zr * zr + zi * zi < 4.0) {
                double next = zr * zr - zi * zi + cr;
                zi = 2 * zr * zi + ci, zr = next, steps++;
            }
            sum = sum * 31 + (uint64_t)steps;
        }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}

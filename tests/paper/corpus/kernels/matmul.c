/* Multiplies square matrices of doubles, row by row. */
#include "work.h"
#include <stdio.h>

enum { SIZE = 320 };
static double left[SIZE][SIZE], right[SIZE][SIZE], product[SIZE][SIZE];

int main(int argc, char **argv) {
    double trace = 0;
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) left[i][j] = (i * 7 + j) % 11 - 5, right[i][j] = (i + j * 3) % 13 - 6;
    for (int round = rounds(argc, argv, 24); round > 0; round--) {
        for (int i = 0; i < SIZE; i++) {
            for (int j = 0; j < SIZE; j++) product[i][j] = 0;
            for (int k = 0; k < SIZE; k++)
                for (int j = 0; j < SIZE; j++) product[i][j] += left[i][k] * right[k][j];
        }
        for (int i = 0; i < SIZE; i++) trace += product[i][(i + round) % SIZE];
    }
    printf("%.3f\n", trace);
    return 0;
}

/* The spectral norm of an endless matrix, approximated: a division for each element. */
#include "work.h"
#include <math.h>
#include <stdio.h>

enum { SIZE = 1100 };
static double u[SIZE], v[SIZE], between[SIZE];

static double element(int i, int j) { return 1.0 / ((i + j) * (i + j + 1) / 2 + i + 1); }

static void multiply(const double *from, double *to, int transposed) {
    for (int i = 0; i < SIZE; i++) {
        to[i] = 0;
        for (int j = 0; j < SIZE; j++) to[i] += (transposed ? element(j, i) : element(i, j)) * from[j];
    }
}

int main(int argc, char **argv) {
    double uv = 0, vv = 0;
    for (int i = 0; i < SIZE; i++) u[i] = 1;
    for (int left = rounds(argc, argv, 50); left > 0; left--) {
        multiply(u, between, 0), multiply(between, v, 1);
        multiply(v, between, 0), multiply(between, u, 1);
    }
    for (int i = 0; i < SIZE; i++) uv += u[i] * v[i], vv += v[i] * v[i];
    printf("%.9f\n", sqrt(uv / vv));
    return 0;
}

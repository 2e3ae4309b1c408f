/* A sun and four planets, moved step by step: square roots and divisions that wait for each other. */
#include "work.h"
#include <math.h>
#include <stdio.h>

enum { BODIES = 5 };
struct body {
    double place[3], speed[3], mass;
};
static struct body bodies[BODIES] = {
    {{0, 0, 0}, {0, 0, 0}, 39.5},
    {{4.84, -1.16, -0.10}, {0.61, 2.81, -0.02}, 0.038},
    {{8.34, 4.12, -0.40}, {-1.01, 1.82, 0.008}, 0.011},
    {{12.89, -15.11, -0.22}, {1.08, 0.87, -0.01}, 0.0017},
    {{15.38, -25.92, 0.18}, {0.98, 0.59, -0.03}, 0.002},
};

static void step(double time) {
    for (int i = 0; i < BODIES; i++)
        for (int j = i + 1; j < BODIES; j++) {
            double apart[3], square = 0;
            for (int d = 0; d < 3; d++) apart[d] = bodies[i].place[d] - bodies[j].place[d], square += apart[d] * apart[d];
            double pull = time / (square * sqrt(square));
            for (int d = 0; d < 3; d++) {
                bodies[i].speed[d] -= apart[d] * bodies[j].mass * pull;
                bodies[j].speed[d] += apart[d] * bodies[i].mass * pull;
            }
        }
    for (int i = 0; i < BODIES; i++)
        for (int d = 0; d < 3; d++) bodies[i].place[d] += time * bodies[i].speed[d];
}

int main(int argc, char **argv) {
    double energy = 0;
    for (int left = rounds(argc, argv, 9000000); left > 0; left--) step(0.001);
    for (int i = 0; i < BODIES; i++)
        for (int d = 0; d < 3; d++) energy += bodies[i].mass * bodies[i].speed[d] * bodies[i].speed[d] / 2;
    printf("%.9f\n", energy);
    return 0;
}

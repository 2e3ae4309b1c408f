/* Digests a megabyte again and again: 32-bit rotations and additions. */
#include "work.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint32_t constants[64];
static uint32_t turn(uint32_t word, int by) { return word >> by | word << (32 - by); }

/* The constants are the fractions of the cube roots of the first primes, the beginning those of the square roots of the first eight. */
static void prepare(uint32_t state[8]) {
    for (int found = 0, number = 2; found < 64; number++) {
        int is_prime = 1;
        for (int divisor = 2; divisor * divisor <= number; divisor++) is_prime &= number % divisor != 0;
        if (!is_prime) continue;
        double square = sqrt(number), cube = cbrt(number);
        if (found < 8) state[found] = (uint32_t)((square - floor(square)) * 4294967296.0);
        constants[found++] = (uint32_t)((cube - floor(cube)) * 4294967296.0);
    }
}

static void digest(uint32_t state[8], const unsigned char *block) {
    uint32_t word[64], s[8];
    for (int i = 0; i < 16; i++)
        word[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = word[i - 15], b = word[i - 2];
        word[i] = word[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + word[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + word[i];
        uint32_t two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one, s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

int main(int argc, char **argv) {
    size_t length = 1 << 20;
    unsigned char *text = some_text(length);
    uint32_t state[8];
    prepare(state);
    for (int left = rounds(argc, argv, 150); left > 0; left--)
        for (size_t at = 0; at < length; at += 64) digest(state, text + at);
    for (int i = 0; i < 8; i++) printf("%08x", state[i]);
    printf("\n");
    return 0;
}

/* Compresses and restores the same text, again and again. */
#include "bzlib.h"
#include "work.h"
#include <stdio.h>
#include <string.h>

void bz_internal_error(int code) {
    fprintf(stderr, "bzip2: internal error %d\n", code);
    exit(1);
}

int main(int argc, char **argv) {
    unsigned length = 2u << 20, room = length + length / 50 + 600;
    unsigned char *text = some_text(length), *packed = malloc(room), *back = malloc(length);
    uint64_t sum = 0;
    for (int round = rounds(argc, argv, 4); round > 0; round--) {
        unsigned packed_length = room, back_length = length;
        if (BZ2_bzBuffToBuffCompress((char *)packed, &packed_length, (char *)text, length, 9, 0, 30)) return 1;
        if (BZ2_bzBuffToBuffDecompress((char *)back, &back_length, (char *)packed, packed_length, 0, 0)) return 1;
        if (back_length != length || memcmp(text, back, length)) return 1;
        sum = checksum(sum, packed, packed_length);
    }
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}

/* Compresses and restores the same text on levels 1 to 9. */
#include "work.h"
#include "zstd.h"
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    size_t length = 8u << 20, room = ZSTD_compressBound(length);
    unsigned char *text = some_text(length), *packed = malloc(room), *back = malloc(length);
    uint64_t sum = 0;
    int count = rounds(argc, argv, 9);
    for (int round = 0; round < count; round++) {
        size_t packed_length = ZSTD_compress(packed, room, text, length, round % 9 + 1);
        if (ZSTD_decompress(back, length, packed, packed_length) != length || memcmp(text, back, length)) return 1;
        sum = checksum(sum, packed, packed_length);
    }
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}

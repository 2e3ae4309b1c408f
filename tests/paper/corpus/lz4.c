/* Compresses and restores the same text, mostly fast, now and then well. */
#include "lz4.h"
#include "lz4hc.h"
#include "work.h"
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    int length = 8 << 20, room = LZ4_compressBound(length);
    char *text = (char *)some_text(length), *packed = malloc(room), *back = malloc(length);
    uint64_t sum = 0;
    int count = rounds(argc, argv, 12);
    for (int round = 0; round < count; round++) {
        int packed_length = round % 4 == 3 ? LZ4_compress_HC(text, packed, length, room, 9) : LZ4_compress_default(text, packed, length, room);
        if (LZ4_decompress_safe(packed, back, packed_length, length) != length || memcmp(text, back, length)) return 1;
        sum = checksum(sum, packed, packed_length);
    }
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}

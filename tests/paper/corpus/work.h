/* What the programs of the corpus share: input that compresses as text does, the same on every run, and a checksum of what came out. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static inline unsigned char *some_text(size_t length) {
    static const char *const words[] = {"stone ", "river ", "of ", "the ", "under ", "seven ", "lights\n", "and ", "a ", "harbour ", "went ", "slowly, "};
    unsigned char *text = (unsigned char *)malloc(length);
    uint64_t chance = 88172645463325252u;
    size_t at = 0;
    while (at < length) {
        chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
        const char *word = words[chance % 12];
        if (chance % 61 == 0) /* now and then something that does not compress */
            text[at++] = (unsigned char)(chance >> 32);
        for (; *word && at < length; word++) text[at++] = (unsigned char)*word;
    }
    return text;
}

static inline uint64_t checksum(uint64_t sum, const void *bytes, size_t length) {
    const unsigned char *byte = (const unsigned char *)bytes;
    for (size_t i = 0; i < length; i++) sum = (sum ^ byte[i]) * 1099511628211u;
    return sum;
}

static inline int rounds(int argc, char **argv, int usual) { return argc > 1 ? atoi(argv[1]) : usual; }

/* Patches a function of its own text, as the environment says. The second argument is a part of the message that is expected, or empty
 * if it has to work. */
#include "fixture.h"

__asm__(".pushsection .text.site, \"ax\"\n"
        ".p2align 12\n"
        ".skip 62, 0x90\n"
        "own_text: .byte 0xb8, 1, 0, 0, 0, 0xc3\n"
        ".p2align 12\n"
        ".popsection\n");
extern unsigned char own_text[];

int main(int argc, char **argv) {
    CHECK(argc > 2);
    if (*argv[2] == '\0') {
        CHECK(wordpatch_patch_bytes(own_text, FIVE_OTHER, 5) && call(own_text) == OTHER);
        CHECK(wordpatch_start_patch_bytes(own_text, FIVE_ONE, 5) && call(own_text) == OTHER);
        CHECK(wordpatch_finish_patch(own_text) && call(own_text) == ONE);
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        CHECK(!wordpatch_patch_bytes(own_text, FIVE_OTHER, 5) && call(own_text) == ONE);
        const char *error = wordpatch_last_error();
        fprintf(stderr, "%s\n", error);
        CHECK(strstr(error, argv[2]) && !strchr(error, '\n'));
    }
    return 0;
}

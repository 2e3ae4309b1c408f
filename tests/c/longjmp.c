/* A program that leaves its SIGTRAP handler by siglongjmp, as interpreters and test frameworks do. */
#include "fixture.h"

#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;

static void leave(int signal) {
    siglongjmp(back, signal);
}

int main(void) {
    unsigned char *at = across_line(new_page(), 1);
    struct sigaction action = {.sa_handler = leave};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    for (volatile int round = 0; round < 5; round++) {
        CHECK(wordpatch_start_patch_bytes(at, round % 2 ? FIVE_ONE : FIVE_OTHER, 5));
        if (sigsetjmp(back, 1) == 0) {
            __asm__ volatile("int3");
            CHECK(!"the handler does not come back");
        }
        CHECK(call(at) == (round % 2 ? OTHER : ONE));
        CHECK(wordpatch_finish_patch(at));
        CHECK(call(at) == (round % 2 ? ONE : OTHER));
    }
    return 0;
}

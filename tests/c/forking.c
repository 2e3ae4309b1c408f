/* Forks again and again while other threads patch: each child patches the same sites, by the same calls. */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SITES = 8, FORKS = 200 };

static unsigned char *sites[SITES];
static atomic_bool stop;

static void *patch_all(void *unused) {
    for (unsigned round = 0; !stop; round++) {
        unsigned char *at = sites[round % SITES];
        if (wordpatch_start_patch_bytes(at, round / SITES % 2 ? FIVE_ONE : FIVE_OTHER, 5)) {
            if (round % 3 == 0)
                wordpatch_finish_in_background(at);
            wordpatch_finish_patch(at);
        }
    }
    return unused;
}

/* What the parent's threads had started is over here; who started it is not here to say that it was finished. */
static void in_child(void) {
    alarm(20);
    for (int i = 0; i < SITES; i++) {
        CHECK(!wordpatch_is_pending(sites[i]));
        wordpatch_finish_patch(sites[i]);
        CHECK(wordpatch_patch_bytes(sites[i], FIVE_ONE, 5) && call(sites[i]) == ONE);
        CHECK(wordpatch_start_patch_bytes(sites[i], FIVE_OTHER, 5) && call(sites[i]) == ONE);
        CHECK(wordpatch_finish_patch(sites[i]) && call(sites[i]) == OTHER);
    }
    _exit(0);
}

int main(void) {
    unsigned char *page = new_page();
    for (int i = 0; i < SITES; i++)
        sites[i] = across_line(page, i + 1);
    pthread_t patchers[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&patchers[i], NULL, patch_all, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            in_child();
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        if (status != 0) {
            fprintf(stderr, "child %d ended with status %#x\n", i, status);
            return 1;
        }
    }
    stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(patchers[i], NULL);
    return 0;
}

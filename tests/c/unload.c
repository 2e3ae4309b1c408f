/* Opens the library, patches, and closes it again. What it left behind has to go on working: its handler for SIGTRAP, what it
 * registered for forks, and, with a second argument, its completion thread. */
#include "fixture.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handle(int signal) {
    (void)signal;
    handled++;
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    unsigned char *page = new_page(), *first = across_line(page, 1), *second = across_line(page, 2);
    CHECK(signal(SIGTRAP, handle) != SIG_ERR);
    void *library = dlopen(argv[1], RTLD_NOW);
    CHECK(library != NULL);
    bool (*patch)(void *, const void *, size_t) = dlsym(library, "wordpatch_patch_bytes");
    bool (*start)(void *, const void *, size_t) = dlsym(library, "wordpatch_start_patch_bytes");
    bool (*in_background)(void *) = dlsym(library, "wordpatch_finish_in_background");
    CHECK(patch(first, FIVE_OTHER, 5) && call(first) == OTHER);
    if (argc > 2)
        CHECK(start(second, FIVE_OTHER, 5) && in_background(second));
    CHECK(dlclose(library) == 0);

    for (int waited = 0; argc > 2 && call(second) != OTHER; waited++) {
        CHECK(waited < 10000);
        usleep(1000);
    }
    __asm__ volatile("int3");
    CHECK(handled == 1);
    pid_t child = fork();
    if (child == 0)
        _exit(call(first) == OTHER ? 0 : 1);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}

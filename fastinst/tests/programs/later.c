/* A listener hears of a library while that is loaded; and its probes are gone with it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "fastinst.h"

#define PLAIN __attribute__((no_instrument_function))
#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, fastinst_last_error());                       \
            return 1;                                                                                                 \
        }                                                                                                             \
    } while (0)

static int heard, passed, loading;
static fastinst_probe entry;

PLAIN static void pass(fastinst_probe probe, void *function, void *site) {
    (void)probe, (void)function, (void)site;
    passed++;
}

PLAIN static void hear(const fastinst_info *info, void *data) {
    (void)data;
    if (strcmp(info->function, "plugged") || info->is_exit)
        return;
    heard += loading;
    entry = info->probe;
    if (!fastinst_activate(info->probe, pass))
        heard = -100;
}

int work(int x) { return x + 1; }

PLAIN int main(int argc, char **argv) {
    (void)argc;
    CHECK(fastinst_start() && fastinst_register_callback(hear, NULL));
    CHECK(heard == 0);
    for (int turn = 1; turn <= 20; turn++) {
        loading = 1;
        void *plugin = dlopen(argv[1], RTLD_NOW);
        loading = 0;
        CHECK(plugin);
        int (*run)(int) = (int (*)(int))dlsym(plugin, "plugin");
        CHECK(heard == turn);
        passed = 0;
        run(10);
        CHECK(passed == 10);
        CHECK(dlclose(plugin) == 0);
        CHECK(!fastinst_activate(entry, pass));
        CHECK(strstr(fastinst_last_error(), "its library was closed"));
    }
    return work(0) - 1;
}

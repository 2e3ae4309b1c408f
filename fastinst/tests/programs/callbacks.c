/* Uses every function of fastinst.h the way its comments say. Prints what went wrong and exits with 1, or exits with 0. */
#include "fastinst.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s (last error: %s)\n", __LINE__, #condition, fastinst_last_error());            \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

#define PLAIN __attribute__((no_instrument_function))

static volatile int sink;
static atomic_long entered, left, other;
static fastinst_probe enter_of_leaf, found;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

/* Probed itself: a callback that comes by probes is not called again. */
__attribute__((noinline)) void count(fastinst_probe probe, void *function, void *site) {
    (void)site;
    if (function == (void *)leaf && probe == enter_of_leaf)
        entered++;
    leaf(1);
}

PLAIN static void count_exit(fastinst_probe probe, void *function, void *site) {
    (void)probe, (void)function, (void)site;
    left++;
}

PLAIN static void count_other(fastinst_probe probe, void *function, void *site) {
    (void)probe, (void)function, (void)site;
    other++;
}

__attribute__((noinline)) void discover(const fastinst_info *info, void *data) {
    (*(int *)data)++;
    if (!strcmp(info->function, "leaf") && !info->is_exit) {
        enter_of_leaf = info->probe;
        found = info->function_address == (void *)leaf && strstr(info->module, "callbacks") && !strcmp(info->symbol, "leaf");
    }
    leaf(2);
}

static atomic_int stop;

PLAIN static void *execute(void *unused) {
    while (!stop)
        leaf(3);
    return unused;
}

PLAIN int main(void) {
    int discovered = 0;
    CHECK(fastinst_last_error()[0] == '\0');
    CHECK(fastinst_start() && fastinst_start());
    CHECK(fastinst_register_callback(discover, &discovered));
    CHECK(discovered > 0 && (unsigned)discovered == fastinst_count() && found);
    for (int i = 0; i < 10; i++)
        leaf(i);
    CHECK(entered == 0);

    CHECK(fastinst_activate(enter_of_leaf, count) && fastinst_is_active(enter_of_leaf));
    for (int i = 0; i < 10; i++)
        leaf(i);
    CHECK(entered == 10);
    CHECK(fastinst_activate(enter_of_leaf, count_other));
    leaf(1);
    CHECK(entered == 10 && other == 1);
    CHECK(fastinst_deactivate(enter_of_leaf) && !fastinst_is_active(enter_of_leaf));
    leaf(1);
    CHECK(entered == 10 && other == 1);

    CHECK(fastinst_enable_function((void *)leaf, count, count_exit));
    leaf(1);
    CHECK(entered == 11 && left == 1);
    CHECK(fastinst_disable_function((void *)leaf));
    leaf(1);
    CHECK(entered == 11 && left == 1);

    fastinst_probe probes[8];
    CHECK(fastinst_select("lea?", probes, 8) >= 2 && fastinst_select("/^leaf$/", probes, 0) >= 2);
    CHECK(fastinst_select("nothing_of_that_name", probes, 8) == 0);
    CHECK(fastinst_select("/(/", probes, 8) == -1 && strstr(fastinst_last_error(), "invalid pattern"));
    fastinst_batch *batch = fastinst_batch_new();
    int64_t selected = fastinst_select("leaf", probes, 8);
    for (int64_t i = 0; i < selected; i++)
        fastinst_batch_activate(batch, probes[i], count_other);
    CHECK(fastinst_commit(batch));
    other = 0;
    leaf(1);
    CHECK(other == 2);

    /* While another thread runs it. */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, execute, NULL) == 0);
    for (int i = 0; i < 20000; i++)
        CHECK(i % 2 ? fastinst_activate(enter_of_leaf, i % 4 == 1 ? count : count_other) : fastinst_deactivate(enter_of_leaf));
    stop = 1;
    CHECK(pthread_join(thread, NULL) == 0);

    CHECK(!fastinst_activate(1000000, count) && strstr(fastinst_last_error(), "no probe"));
    CHECK(!fastinst_enable_function((void *)printf, count, count) && strstr(fastinst_last_error(), "no probes"));
    CHECK(fastinst_scan());
    return 0;
}

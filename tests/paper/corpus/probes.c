/* A program with twenty thousand probes that toggles them itself, through the interface in C, and tells what each took.
 *
 *   probes toggle BLOCKS SAMPLES     lines "ROW subject|baseline TICKS", and "ROW end" behind each block
 *   probes invoke CALLS [PAUSE]      the ticks that a call takes, round by round; microseconds between two rounds
 *   probes nothing                   what its start costs
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>

#ifdef WITH_FASTINST
#include "fastinst.h"
#endif

#define BARE __attribute__((no_instrument_function))

#define ONE(n) __attribute__((noinline)) void f##n(void) { __asm__ volatile("" ::: "memory"); }
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
#define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
#define THOUSAND(n) HUNDRED(n##0) HUNDRED(n##1) HUNDRED(n##2) HUNDRED(n##3) HUNDRED(n##4) HUNDRED(n##5) HUNDRED(n##6) HUNDRED(n##7) HUNDRED(n##8) HUNDRED(n##9)
THOUSAND(1) THOUSAND(2) THOUSAND(3) THOUSAND(4) THOUSAND(5) THOUSAND(6) THOUSAND(7) THOUSAND(8) THOUSAND(9) THOUSAND(10)

__attribute__((noinline)) void target(void) { __asm__ volatile("" ::: "memory"); }

static inline BARE uint64_t now(void) {
    __asm__ volatile("" ::: "memory");
    uint64_t ticks = __rdtsc();
    __asm__ volatile("" ::: "memory");
    return ticks;
}

BARE static void invoke(long calls, unsigned pause) {
    for (int round = 0; round < 40; round++) {
        usleep(pause); /* whoever takes what was measured gets the time to */
        uint64_t start = now();
        for (long i = 0; i < calls; i++) target();
        printf("%.4f\n", (double)(now() - start) / (double)calls);
    }
}

#ifdef WITH_FASTINST
static atomic_ulong passes;
static atomic_int over;

BARE static void *execute(void *nothing) {
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        target();
        atomic_fetch_add_explicit(&passes, 1, memory_order_relaxed);
    }
    return nothing;
}

BARE static void seen(fastinst_probe probe, void *function, void *call_site) { (void)probe, (void)function, (void)call_site; }

/* Until the executer has run the site again, and holds it. */
BARE static void let_it_run(void) {
    unsigned long before = atomic_load(&passes);
    while (atomic_load(&passes) - before < 3) _mm_pause();
    _mm_mfence();
}

static fastinst_probe probe;
static volatile uint8_t *site;

BARE static uint64_t by_us(int on, int visible) {
    uint64_t start = now();
    if (on)
        fastinst_activate(probe, seen);
    else
        fastinst_deactivate(probe);
    if (visible) _mm_mfence();
    return now() - start;
}

BARE static uint64_t bare_store(int on, int visible) {
    uint64_t start = now();
    *site = on ? 0xe8 : 0xa9;
    if (visible) _mm_mfence();
    return now() - start;
}

BARE static void toggle_one(int blocks, int samples) {
    static const char *const rows[2][2] = {{"deactivate", "deactivate/visible"}, {"activate", "activate/visible"}};
    uint64_t *took = malloc(sizeof *took * (size_t)samples * 2);
    for (int block = 0; block < blocks; block++)
        for (int visible = 0; visible < 2; visible++)
            for (int bare = 0; bare < 2; bare++) {
                for (int i = 0; i < 2 * samples; i++) {
                    let_it_run();
                    took[i] = (bare ? bare_store : by_us)((i + 1) % 2, visible);
                }
                for (int i = 0; i < 2 * samples; i++)
                    printf("%s %s %lu\n", rows[(i + 1) % 2][visible], bare ? "baseline" : "subject", (unsigned long)took[i]);
                if (bare) printf("%s end\n%s end\n", rows[0][visible], rows[1][visible]);
            }
}

BARE static void toggle_all(int blocks) {
    uint32_t count = fastinst_count();
    volatile uint8_t **sites = malloc(sizeof *sites * count);
    fastinst_probe *probes = malloc(sizeof *probes * count);
    int64_t found = fastinst_select("f1*", probes, count), of_twenty_thousand = 0;
    (void)sites;
    for (char digit[] = "f1*"; digit[1] <= '9'; digit[1]++) {
        found = fastinst_select(digit, probes + of_twenty_thousand, count - (uint32_t)of_twenty_thousand);
        if (found > 0) of_twenty_thousand += found;
    }
    printf("probes %ld\n", (long)of_twenty_thousand);
    for (int block = 0; block < blocks; block++) {
        for (int on = 1; on >= 0; on--) {
            fastinst_batch *batch = fastinst_batch_new();
            for (int64_t i = 0; i < of_twenty_thousand; i++) {
                if (on)
                    fastinst_batch_activate(batch, probes[i], seen);
                else
                    fastinst_batch_deactivate(batch, probes[i]);
            }
            uint64_t start = now();
            fastinst_commit(batch);
            _mm_mfence();
            printf("%s subject %lu\n%s end\n", on ? "rearm/bulk" : "disarm/bulk", (unsigned long)(now() - start), on ? "rearm/bulk" : "disarm/bulk");
        }
    }
}

static BARE int find_target(void) {
    fastinst_probe both[2];
    if (fastinst_select("target", both, 2) != 2) return 0;
    probe = both[0];
    return 1;
}

BARE static void locate(const fastinst_info *info, void *nothing) {
    (void)nothing;
    if (info->probe == probe) site = info->address;
}

BARE static int toggle(int blocks, int samples) {
    pthread_t executer;
    if (!fastinst_start() || !find_target()) {
        fprintf(stderr, "probes: %s\n", fastinst_last_error());
        return 1;
    }
    fastinst_register_callback(locate, NULL);
    for (int i = 0; i < 100 * samples; i++) {
        uint64_t start = now();
        printf("overhead subject %lu\n", (unsigned long)(now() - start));
        if (i % samples == samples - 1) puts("overhead end");
    }
    pthread_create(&executer, NULL, execute, NULL);
    toggle_one(blocks, samples);
    toggle_all(blocks);
    atomic_store(&over, 1);
    pthread_join(executer, NULL);
    return 0;
}
#endif

BARE int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "invoke")) return invoke(atol(argv[2]), argc > 3 ? (unsigned)atoi(argv[3]) : 1000), 0;
#ifdef WITH_FASTINST
    if (argc > 3 && !strcmp(argv[1], "toggle")) return toggle(atoi(argv[2]), atoi(argv[3]));
#endif
    return 0;
}

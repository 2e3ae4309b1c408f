/* Another counter of calls, to compare with: every function's offset in the program, and its calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 1 << 14 };

static struct {
    _Atomic(uintptr_t) function;
    atomic_ulong calls;
} cells[CELLS];

void __cyg_profile_func_enter(void *function, void *site) {
    (void)site;
    uintptr_t wanted = (uintptr_t)function;
    for (unsigned at = (unsigned)(wanted >> 4) % CELLS;; at = (at + 1) % CELLS) {
        uintptr_t found = 0;
        if (atomic_compare_exchange_strong(&cells[at].function, &found, wanted) || found == wanted) {
            atomic_fetch_add(&cells[at].calls, 1);
            return;
        }
    }
}

void __cyg_profile_func_exit(void *function, void *site) {
    (void)function;
    (void)site;
}

__attribute__((destructor)) static void print(void) {
    const char *path = getenv("COUNTS");
    FILE *file = path ? fopen(path, "w") : NULL;
    for (unsigned at = 0; file && at < CELLS; at++) {
        Dl_info info;
        struct link_map *map;
        if (cells[at].function && dladdr1((void *)cells[at].function, &info, (void **)&map, RTLD_DL_LINKMAP))
            fprintf(file, "%lx %lu\n", (unsigned long)(cells[at].function - map->l_addr), cells[at].calls);
    }
    if (file)
        fclose(file);
}

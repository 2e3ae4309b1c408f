/*
 * Loads a library, calls it, and unloads it, so many times; at other places now and then, if it is told "elsewhere". Says whether mappings
 * and memory stay what they were after the first tenth. A thread works meanwhile.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int sink;
static atomic_int over;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

static void *work(void *unused) {
    while (!atomic_load(&over)) {
        leaf(1);
        usleep(100);
    }
    return unused;
}

static int mappings(void) {
    int lines = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    for (int c; (c = getc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

static long resident(void) {
    long size, pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (fscanf(statm, "%ld %ld", &size, &pages) != 2)
        pages = 0;
    fclose(statm);
    return pages;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 1;
    int cycles = atoi(argv[2]), lines = 0, elsewhere = argc > 3 && !strcmp(argv[3], "elsewhere");
    long pages = 0, sum = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    for (int i = 0; i < cycles; i++) {
        /* What lies where the library was before sends it elsewhere. */
        void *stone = elsewhere && i % 3 == 0 ? mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
        void *library = dlopen(argv[1], RTLD_NOW);
        int (*plugin)(int) = library ? (int (*)(int))dlsym(library, "plugin") : NULL;
        if (!plugin)
            return 2;
        sum += plugin(3);
        if (dlclose(library))
            return 3;
        if (stone)
            munmap(stone, 1 << 16);
        if (i == cycles / 10) {
            lines = mappings();
            pages = resident();
        }
    }
    atomic_store(&over, 1);
    pthread_join(thread, NULL);
    int more_lines = mappings() - lines;
    long more_pages = resident() - pages;
    printf("%ld %s %s\n", sum, more_lines < 20 ? "flat" : "more mappings", more_pages < 600 ? "flat" : "more memory");
    if (getenv("CHURN"))
        fprintf(stderr, "%d mappings, %ld pages more than %d and %ld\n", more_lines, more_pages, lines, pages);
    return 4;
}

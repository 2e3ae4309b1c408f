/*
 * Has all of its memory locked, what there is and what will be, and starts threads, which recurse deeply, one after the other. Says whether
 * what lies in memory stays small, and what it is charged for where the kernel promises no more memory than there is.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline)) int down(int n) {
    return n ? down(n - 1) + leaf(n) : 0;
}

static void *work(void *unused) {
    down(100);
    return unused;
}

static long resident(void) {
    long size, pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (fscanf(statm, "%ld %ld", &size, &pages) != 2)
        pages = 0;
    fclose(statm);
    return pages / 256;
}

/* All mappings that count (VmFlags "ac", proc_pid_smaps(5)), in megabytes. */
static long charged(void) {
    char line[512];
    long size = 0, sum = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (fgets(line, sizeof line, maps)) {
        sscanf(line, "Size: %ld kB", &size);
        if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " ac"))
            sum += size;
    }
    fclose(maps);
    return sum / 1024;
}

int main(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 17);
    int locked = mlockall(MCL_CURRENT | MCL_FUTURE);
    pthread_t threads[20];
    for (int i = 0; i < 20; i++)
        if (pthread_create(&threads[i], &small, work, NULL))
            return 1;
    for (int i = 0; i < 20; i++)
        pthread_join(threads[i], NULL);
    down(20000);
    long lie = resident(), count = charged();
    printf("%d %s %s\n", locked, lie < 64 ? "small" : "large", count < 64 ? "little" : "much");
    return 5;
}

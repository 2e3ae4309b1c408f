/* A runtime that makes code while it runs and tells perf of it: two functions, one after the
 * other, at the same address. jit map|dump|late|nothing: in perf's map, in a dump whose records
 * are written at the end, in a map that is written at the end, or not at all. Prints the processor
 * time of each, in milliseconds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static uint8_t *code;
static char path[64];
static char records[4096];
static size_t length;

static int64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

/* A loop with a frame: push rbp; mov rbp, rsp; mov ecx, n; dec ecx; jnz; pop rbp; ret. */
static void make(void) { memcpy(code, "\x55\x48\x89\xe5\xb9\x80\x84\x1e\x00\xff\xc9\x75\xfc\x5d\xc3", 15); }

static void put(const void *bytes, size_t count) {
    memcpy(records + length, bytes, count);
    length += count;
}

static void put_word(uint32_t word) { put(&word, 4); }
static void put_long(uint64_t word) { put(&word, 8); }

static void begin_dump(void) {
    put_word(0x4a695444), put_word(1), put_word(40), put_word(62), put_word(0), put_word(getpid());
    put_long(now(CLOCK_MONOTONIC)), put_long(0);
}

static void load(const char *name, uint64_t index) {
    put_word(0), put_word(56 + strlen(name) + 1 + 15), put_long(now(CLOCK_MONOTONIC));
    put_word(getpid()), put_word(getpid());
    put_long((uintptr_t)code), put_long((uintptr_t)code), put_long(15), put_long(index);
    put(name, strlen(name) + 1), put(code, 15);
}

static void write_all(const char *mode, const char *bytes, size_t count) {
    FILE *file = fopen(path, mode);
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file))
        exit(3);
}

static void tell(const char *mode, const char *name, uint64_t index) {
    char line[128];
    int count = snprintf(line, sizeof line, "%lx f %s\n", (unsigned long)(uintptr_t)code, name);
    if (strcmp(mode, "map") == 0)
        write_all("a", line, count);
    else if (strcmp(mode, "dump") == 0)
        load(name, index);
}

static void work(const char *name) {
    int64_t begin = now(CLOCK_PROCESS_CPUTIME_ID);
    int64_t took;
    do
        ((void (*)(void))code)();
    while ((took = now(CLOCK_PROCESS_CPUTIME_ID) - begin) < 700000000);
    printf("%s: %ld\n", name, (long)(took / 1000000));
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "nothing";
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return 3;
    make();
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    if (strcmp(mode, "dump") == 0) {
        snprintf(path, sizeof path, "jit-%d.dump", getpid());
        begin_dump();
        write_all("w", records, length);
        int file = open(path, O_RDONLY);
        /* So it is found. */
        if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED || close(file))
            return 3;
    }
    tell(mode, "first", 1);
    work("first");
    tell(mode, "second", 2);
    work("second");
    if (strcmp(mode, "dump") == 0)
        write_all("w", records, length);
    if (strcmp(mode, "late") == 0) {
        char text[256];
        int count = snprintf(text, sizeof text, "nonsense\n0 1 null\n%lx ffffffffffffffff huge\n%lx f both\n",
                             (unsigned long)(uintptr_t)code, (unsigned long)(uintptr_t)code);
        write_all("w", text, count);
    }
    return 0;
}

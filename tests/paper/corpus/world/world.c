/* A host to speak of for a program: files, clocks, chance and arguments.
 *
 *   PROGRAM HOW-MUCH TEXT REPORT
 *
 * How much the program does is a number in the first file. The second is read as a whole before,
 * and its checksum told behind what the program prints; the third tells what is different in each
 * run. */
#undef main
#include "work.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static FILE *opened(const char *name, const char *how) {
    FILE *file = fopen(name, how);
    if (!file) perror(name), exit(1);
    return file;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

int main(int argc, char **argv) {
    static char rounds[32], text[4096];
    if (argc != 4) return fprintf(stderr, "%s HOW-MUCH TEXT REPORT\n", argv[0]), 2;
    FILE *file = opened(argv[1], "r");
    rounds[fread(rounds, 1, sizeof rounds - 1, file)] = 0;
    fclose(file);
    file = opened(argv[2], "r");
    uint64_t sum = 0;
    for (size_t length; (length = fread(text, 1, sizeof text, file)) > 0;)
        sum = checksum(sum, text, length);
    fclose(file);
    uint64_t chance, begin = now();
    if (getentropy(&chance, sizeof chance)) return 1;
    char *arguments[] = {argv[0], rounds, NULL};
    int code = program_main(2, arguments);
    printf("%016llx\n", (unsigned long long)sum);
    file = opened(argv[3], "w");
    fprintf(file, "%s: %016llx, %llu ns, %ld\n", argv[0], (unsigned long long)chance,
            (unsigned long long)(now() - begin), (long)time(NULL));
    fclose(file);
    return code;
}

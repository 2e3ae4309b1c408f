// Buffered streams: written, read, sought, appended to, replaced.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void contents(const char *name) {
    FILE *file = fopen(name, "r");
    if (!file) {
        printf("%s: %s\n", name, strerror(errno));
        return;
    }
    int count = 0, byte, sum = 0;
    while ((byte = getc(file)) != EOF) count++, sum = (sum * 31 + byte) & 0xffffff;
    printf("%s: %d bytes, sum %x, eof %d, error %d\n", name, count, sum, feof(file) != 0, ferror(file) != 0);
    fclose(file);
}

static void written(void) {
    FILE *file = fopen("numbers", "w");
    for (int i = 0; i < 20000; i++) fprintf(file, "%d %x %.3f\n", i, i * i, i / 7.0);
    printf("at %ld\n", ftell(file));
    fclose(file);
    contents("numbers");
}

static void scanned(void) {
    FILE *file = fopen("numbers", "r");
    int number, count = 0;
    unsigned square;
    double part, sum = 0;
    while (fscanf(file, "%d %x %lf", &number, &square, &part) == 3) count++, sum += part + square % 10;
    printf("%d lines, sum %.3f\n", count, sum);
    rewind(file);
    char line[64];
    for (int i = 0; i < 3; i++) fputs(fgets(line, sizeof line, file), stdout);
    fclose(file);
}

static void sought(void) {
    FILE *file = fopen("numbers", "r+");
    fseek(file, -8, SEEK_END);
    long end = ftell(file);
    char tail[9] = {0};
    printf("%zu bytes from %ld: %s", fread(tail, 1, 8, file), end, tail);
    fseek(file, 100, SEEK_SET);
    fputs("HERE", file);
    fseek(file, -2, SEEK_CUR);
    printf("%c", getc(file));
    printf("%c\n", getc(file));
    ungetc('!', file);
    int pushed = getc(file);
    printf("%c at %ld\n", pushed, ftell(file));
    printf("before the start: %d\n", fseek(file, -1, SEEK_SET));
    fclose(file);
    contents("numbers");
}

static void appended(void) {
    for (int i = 0; i < 3; i++) {
        FILE *file = fopen("log", "a+");
        fprintf(file, "entry %d\n", i);
        fflush(file);
        rewind(file);
        char line[32];
        fputs(fgets(line, sizeof line, file), stdout);
        fprintf(file, "end %d\n", i);
        fclose(file);
    }
    contents("log");
}

static void unbuffered(void) {
    FILE *file = fopen("raw", "w");
    setvbuf(file, NULL, _IONBF, 0);
    for (int i = 0; i < 100; i++) putc('a' + i % 26, file);
    fclose(file);
    contents("raw");
    char *large = malloc(1 << 20);
    memset(large, 'x', 1 << 20);
    file = fopen("large", "wb");
    printf("%zu written\n", fwrite(large, 1, 1 << 20, file));
    fclose(file);
    contents("large");
    free(large);
}

static void named(void) {
    printf("rename %d\n", rename("raw", "cooked"));
    contents("raw");
    contents("cooked");
    printf("exclusive: %s\n", fopen("cooked", "wx") ? "opened" : strerror(errno));
    printf("missing: %s\n", fopen("none/at/all", "w") ? "opened" : strerror(errno));
    printf("remove %d\n", remove("cooked"));
    printf("again %d %s\n", remove("cooked"), strerror(errno));
    FILE *file = freopen("log", "r", stdin);
    char line[32];
    printf("%s", fgets(line, sizeof line, file));
}

static void echoed(void) {
    char line[256];
    int lines = 0;
    size_t bytes = 0;
    while (fgets(line, sizeof line, stdin)) {
        size_t length = strlen(line);
        bytes += length;
        lines += line[length - 1] == '\n';
        if (lines <= 2) fputs(line, stdout);
    }
    printf("%d lines, %zu bytes of input\n", lines, bytes);
}

int main(void) {
    echoed();
    written();
    scanned();
    sought();
    appended();
    unbuffered();
    named();
    fprintf(stderr, "to the other stream\n");
    return 0;
}

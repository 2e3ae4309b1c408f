// Ways to end: by returning, by exiting from within, without cleaning up, and by giving up.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void never(void) {
    puts("said at the end");
}

static int within(int depth, int code) {
    if (depth == 0) exit(code);
    return within(depth - 1, code) + depth;
}

int main(int count, char **arguments) {
    if (count < 3) return 1;
    int code = atoi(arguments[2]);
    atexit(never);
    printf("ending by %s\n", arguments[1]);
    if (!strcmp(arguments[1], "return")) return code;
    if (!strcmp(arguments[1], "exit")) return within(100, code);
    fflush(stdout);
    if (!strcmp(arguments[1], "_Exit")) _Exit(code);
    abort();
}

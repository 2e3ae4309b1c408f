/* Copies its input in upper case; told "wait", waits until a signal says how to end. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t got;

__attribute__((noinline)) int upper(int c) {
    return toupper(c);
}

static void note(int signal) {
    got = signal;
}

int main(int argc, char **argv) {
    if (argc > 2)
        return atoi(argv[2]);
    if (argc > 1) {
        signal(SIGINT, note);
        signal(SIGTERM, note);
        signal(SIGHUP, note);
        signal(SIGUSR2, note);
        puts("ready");
        fflush(stdout);
        for (int i = 0; i < 200 && !got; i++)
            usleep(50000);
        printf("got %d\n", (int)got);
        return 40 + got;
    }
    for (int c; (c = getchar()) != EOF;)
        putchar(upper(c));
    return 0;
}

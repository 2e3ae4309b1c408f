/*
 * A probed handler interrupts probed functions, on a stack of its own. It counts its calls itself, and writes them where it is told;
 * nothing that depends on time is printed. "overflow": the stack is used up, which a probed handler notices and ends.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile int sink;
static volatile long handled;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline)) int told(int x) {
    sink = x;
    return x + 1;
}

static void handler(int signal) {
    handled++;
    for (int i = 0; i < 3; i++)
        told(signal);
}

__attribute__((noinline)) void give_up(int signal) {
    (void)signal;
    told(1);
    if (write(1, "enough\n", 7) == 7)
        _exit(9);
}

__attribute__((noinline)) int fall(volatile char *above) {
    volatile char room[200];
    room[0] = *above;
    return fall(room) + room[0];
}

int main(int argc, char **argv) {
    char *memory = malloc(1 << 16);
    stack_t stack = {.ss_sp = memory, .ss_size = 1 << 16};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    if (argc > 1 && !strcmp(argv[1], "overflow")) {
        volatile char top = 0;
        action.sa_handler = give_up;
        sigaction(SIGSEGV, &action, NULL);
        return fall(&top);
    }
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
    for (int i = 0; i < 1000000 || handled < 100; i++)
        if (i < 1000000)
            leaf(i);
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    FILE *tally = argc > 1 ? fopen(argv[1], "w") : NULL;
    if (tally) {
        fprintf(tally, "%ld\n", handled);
        fclose(tally);
    }
    puts("done");
    return 0;
}

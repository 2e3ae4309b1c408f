// Faults that a handler makes exceptions of: -fnon-call-exceptions.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#define HERE extern "C" __attribute__((noipa))
struct Fault {};
static void handler(int signal, siginfo_t *, void *) {
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, signal);
    sigprocmask(SIG_UNBLOCK, &own, nullptr);
    throw Fault();
}
HERE int read_one(const int *from) { return *from; }
HERE int read_all(const int *from, int count) {
    int sum = *from;
    for (int i = 0; i < count; i++) sum += from[i] ^ i;
    return sum;
}
HERE void write_one(int *to, int what) { *to = what; }
HERE int divide(int a, int b) { return a / b; }
HERE int in_the_middle(int **from, int b) {
    int *first = from[0];
    return read_one(first) + first[b];
}

int main(int argc, char **argv) {
    int turns = argc > 1 ? atoi(argv[1]) : 20000, caught = 0, values[4] = {1, 2, 3, 4};
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGFPE, &action, nullptr);
    long sum = 0;
    for (int i = 0; i < turns; i++) {
        int *at = i % 100 == 7 ? nullptr : values;
        int *pointers[1] = {at};
        try {
            switch (i % 500 / 100) {
            case 0: sum += read_one(at); break;
            case 1: sum += read_all(at, 3); break;
            case 2: write_one(at, i % 5); break;
            case 3: sum += divide(i, at ? 3 : 0); break;
            default: sum += in_the_middle(pointers, 2); break;
            }
        } catch (const Fault &) {
            caught++;
        }
    }
    std::printf("%d %ld\n", caught, sum);
    return 3;
}

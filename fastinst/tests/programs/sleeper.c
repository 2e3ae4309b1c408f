/* One call of five seconds, and one that never ends by itself if asked for. */
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) void nap(int seconds) {
    struct timespec time = {seconds, 0};
    nanosleep(&time, NULL);
}

__attribute__((noinline)) void spin(void) {
    static volatile int sink;
    sink++;
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1)
        for (;;)
            spin();
    nap(5);
    return 0;
}

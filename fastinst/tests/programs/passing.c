/* Passes a point, in three places, until it is asked to end; then it says how many tools it has
 * seen there at most, and how many there are now. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

__extension__ unsigned short app_tick_semaphore __attribute__((unused, section(".probes")));

static volatile sig_atomic_t over;
static volatile long sink;

static void stop(int signal) {
    (void)signal;
    over = 1;
}

int main(void) {
    signal(SIGTERM, stop);
    puts("ready");
    fflush(stdout);
    int most = 0;
    while (!over) {
        int now = *(volatile unsigned short *)&app_tick_semaphore;
        if (now > most) most = now;
        STAP_PROBE1(app, tick, now);
        sink += 3;
        STAP_PROBE(app, tick);
        sink ^= most;
        STAP_PROBE2(app, tick, most, sink);
        sched_yield();
    }
    printf("most %d now %d\n", most, *(volatile unsigned short *)&app_tick_semaphore);
    return 0;
}

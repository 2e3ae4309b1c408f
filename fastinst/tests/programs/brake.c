/* Keeps the agent from running for two milliseconds in the middle of each of its rounds, where it asks for the time of the process: behind
   its look at the counters, and before it decides and writes. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    char name[16];
    if (clock == CLOCK_PROCESS_CPUTIME_ID && prctl(PR_GET_NAME, name) == 0 && strcmp(name, "fastinst") == 0)
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    return (int)syscall(SYS_clock_gettime, clock, time);
}

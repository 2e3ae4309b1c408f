// Clocks and waiting. What they show differs, so it is only said whether it makes sense.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long now(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time)) return -1;
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int count, char **arguments) {
    long long given = count > 1 ? atoll(arguments[1]) : 0;
    printf("the time of day: %d\n", time(NULL) >= given && time(NULL) < given + 600);
    struct timeval day;
    gettimeofday(&day, NULL);
    printf("the same: %d\n", llabs(day.tv_sec - (long long)time(NULL)) <= 1);
    struct timespec step;
    printf("resolutions: %d", clock_getres(CLOCK_MONOTONIC, &step) == 0 && step.tv_sec == 0 && step.tv_nsec >= 1);
    printf(" %d\n", clock_getres(CLOCK_REALTIME, &step) == 0 && step.tv_sec == 0 && step.tv_nsec >= 1);

    long long before = now(CLOCK_MONOTONIC), last = before;
    for (int i = 0; i < 1000; i++) {
        long long next = now(CLOCK_MONOTONIC);
        if (next < last) puts("backwards");
        last = next;
    }

    before = now(CLOCK_MONOTONIC);
    struct timespec span = {0, 20000000};
    printf("nanosleep %d", nanosleep(&span, NULL));
    printf(" long enough %d\n", now(CLOCK_MONOTONIC) - before >= 20000000);

    before = now(CLOCK_MONOTONIC);
    struct timespec until = {0, 0};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    printf("clock_nanosleep %d", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL));
    printf(" long enough %d\n", now(CLOCK_MONOTONIC) - before >= 10000000);

    before = now(CLOCK_MONOTONIC);
    printf("usleep %d", usleep(5000));
    printf(" long enough %d\n", now(CLOCK_MONOTONIC) - before >= 5000000);

    struct tm *broken = gmtime(&(time_t){86400 * 365});
    char text[64];
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", broken);
    puts(text);
    return 0;
}

/*
 * Shuts itself in with a filter of system calls, and works on. "before", "clock": another program is started behind the filter
 * ("clock": of perf_event_open). "barrier": no
 * membarrier in any thread. "strict": nothing but what the work needs. Filtered calls fail with EPERM.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

__attribute__((noinline)) long work(int n) {
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += leaf(i);
    return sum;
}

#define CALL BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define IS(number, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, then, otherwise)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static int shut(struct sock_filter *filter, unsigned short length) {
    struct sock_fprog program = {length, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static int no_barrier(void) {
    struct sock_filter filter[] = {CALL, IS(SYS_membarrier, 0, 1), REFUSE, ALLOW};
    return shut(filter, 4);
}

static int no_clock(void) {
    struct sock_filter filter[] = {CALL, IS(SYS_perf_event_open, 0, 1), REFUSE, ALLOW};
    return shut(filter, 4);
}

static int strict(void) {
    struct sock_filter filter[] = {
        CALL,
        IS(SYS_read, 8, 0), IS(SYS_write, 7, 0), IS(SYS_exit, 6, 0), IS(SYS_exit_group, 5, 0),
        IS(SYS_rt_sigreturn, 4, 0), IS(SYS_futex, 3, 0), IS(SYS_clock_nanosleep, 2, 0), IS(SYS_newfstatat, 1, 0),
        REFUSE,
        ALLOW,
    };
    return shut(filter, sizeof filter / sizeof *filter);
}

int main(int argc, char **argv) {
    if (argc > 2 && (!strcmp(argv[1], "before") || !strcmp(argv[1], "clock"))) {
        if (argv[1][0] == 'b' ? no_barrier() : no_clock())
            return 1;
        execv(argv[2], argv + 2);
        return 127;
    }
    long sum = work(50000);
    int shut_in = argc < 2 ? 0 : !strcmp(argv[1], "strict") ? strict() : no_barrier();
    for (int i = 0; i < 20; i++) {
        struct timespec pause = {0, 2000000};
        sum += work(10000);
        nanosleep(&pause, NULL);
    }
    printf("%d %ld\n", shut_in, sum);
    return 3;
}

/*
 * Shuts itself in with a filter of system calls, and works on. "before", "clock": another program is started behind the filter
 * ("clock": of perf_event_open). "barrier": no
 * membarrier in any thread. "strict": nothing but what the work needs. Filtered calls fail with EPERM.
 * "absent": no file can be opened any more, as if the kernel had no such call.
 * "deadly": as strict, in all threads, and whoever makes another call is killed; "mine": the calling thread alone. "harmless": who traces is
 * killed. "strange": the filter cannot be read.
 */
#include "work.h"

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

static int absent(void) {
    struct sock_filter filter[] = {
        CALL, IS(SYS_open, 1, 0), IS(SYS_openat, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS), ALLOW,
    };
    return shut(filter, sizeof filter / sizeof *filter);
}

#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static int deadly(int all) {
    struct sock_filter filter[] = {
        CALL,
        IS(SYS_write, 5, 0), IS(SYS_exit_group, 4, 0), IS(SYS_rt_sigreturn, 3, 0), IS(SYS_clock_nanosleep, 2, 0),
        IS(SYS_newfstatat, 1, 0),
        KILL,
        ALLOW,
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return all ? shut(filter, program.len)
               : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int harmless(void) {
    struct sock_filter filter[] = {CALL, IS(SYS_ptrace, 0, 1), KILL, ALLOW};
    return shut(filter, 4);
}

static int strange(void) {
    struct sock_fprog program = {7, (struct sock_filter *)8};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) == -1 && errno == EFAULT &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == -1
               ? harmless() : -1;
}

static int shut_in_as(const char *how) {
    return !strcmp(how, "strict")     ? strict()
           : !strcmp(how, "absent")   ? absent()
           : !strcmp(how, "deadly")   ? deadly(1)
           : !strcmp(how, "mine")     ? deadly(0)
           : !strcmp(how, "harmless") ? harmless()
           : !strcmp(how, "strange")  ? strange()
                                      : no_barrier();
}

int main(int argc, char **argv) {
    if (argc > 2 && (!strcmp(argv[1], "before") || !strcmp(argv[1], "clock"))) {
        if (argv[1][0] == 'b' ? no_barrier() : no_clock())
            return 1;
        execv(argv[2], argv + 2);
        return 127;
    }
    long sum = work(50000);
    /* What is printed has room from now on. */
    static char room[4096];
    setvbuf(stdout, room, _IOFBF, sizeof room);
    int shut_in = argc < 2 ? 0 : shut_in_as(argv[1]);
    for (int i = 0; i < 20; i++) {
        struct timespec pause = {0, 2000000};
        sum += work(10000);
        nanosleep(&pause, NULL);
    }
    printf("%d %ld\n", shut_in, sum);
    return 3;
}

/* Keeps the agent from running for two milliseconds in the middle of each of its rounds, where it asks for the time of the process: behind
   its look at the counters, and before it decides and writes. It asks the kernel and nobody else, so a filter of system calls stops it there until
   a thread of this library lets it go on. Has to be preloaded behind the library, whose constructor is called later then. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int listener;

static void *let_go_on_later(void *unused) {
    struct seccomp_notif asked;
    for (;;) {
        asked = (struct seccomp_notif){0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0) {
            if (errno == EINTR || errno == ENOENT)
                continue;
            return unused;
        }
        nanosleep(&(struct timespec){0, 2000000}, NULL);
        struct seccomp_notif_resp answer = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

__attribute__((constructor)) static void brake(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLOCK_PROCESS_CPUTIME_ID, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    pthread_t thread;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (listener < 0 || pthread_create(&thread, NULL, let_go_on_later, NULL))
        abort();
}

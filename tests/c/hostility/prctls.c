/*
 * Asks the kernel to treat it in another way, and works on. "write-xor-execute": no mapping is made executable from now on. "undumpable": its
 * files in /proc are root's. "no-clock": the time-stamp counter faults. "privileges": none can be gained. "strict": read, write and
 * the end of a thread are the only calls. "slack", "subreaper", "renamed": harmless.
 */
#define _GNU_SOURCE
#include "work.h"

#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

static int ask(const char *how) {
    if (!strcmp(how, "write-xor-execute"))
        return prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0);
    if (!strcmp(how, "undumpable"))
        return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (!strcmp(how, "no-clock"))
        return prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
    if (!strcmp(how, "privileges"))
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!strcmp(how, "strict"))
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
    if (!strcmp(how, "slack"))
        return prctl(PR_SET_TIMERSLACK, 1000000, 0, 0, 0);
    if (!strcmp(how, "subreaper"))
        return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    return prctl(PR_SET_NAME, "another\nname", 0, 0, 0);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 1;
    work(1000);
    char said[64];
    long asked = ask(argv[1]);
    int length = snprintf(said, sizeof said, "%ld %ld\n", asked, work(1000));
    if (write(1, said, length) != length)
        return 1;
    if (!strcmp(argv[1], "strict"))
        __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(5) : "rcx", "r11", "memory");
    return 3;
}

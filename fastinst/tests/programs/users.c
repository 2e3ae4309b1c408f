/* Becomes another user, keeps its capabilities, and uses one of them: as a daemon does that needs a port or its groups
   later. The C library ends the program if one thread may do that and another may not. Says what it could do; without
   privileges, that is nothing. */
#define _GNU_SOURCE
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int capset(cap_user_header_t, cap_user_data_t);

static int can(const char *what, int result) {
    printf("%s: %s\n", what, result == 0 ? "yes" : "no");
    return result == 0;
}

/* Makes all permitted capabilities effective, or none. */
static int raise_capabilities(int by_number, int all) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    memset(data, 0, sizeof data);
    if (syscall(SYS_capget, &header, data) != 0)
        return -1;
    for (int i = 0; i < 2; i++)
        data[i].effective = all ? data[i].permitted : 0;
    return by_number ? syscall(SYS_capset, &header, data) : capset(&header, data);
}

int main(int argc, char **argv) {
    int by_number = argc > 1 && strcmp(argv[1], "number") == 0;
    gid_t groups[] = {1, 2};
    setvbuf(stdout, NULL, _IONBF, 0);
    can("keep", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
    can("user", setresuid(65534, 65534, 65534));
    can("raise", raise_capabilities(by_number, 1));
    can("groups", setgroups(2, groups));
    can("group", setresgid(65534, 65534, 65534));
    /* This thread alone gives them up. */
    can("lower", raise_capabilities(by_number, 0));
    can("root again", setuid(0));
    can("no groups", setgroups(0, NULL));
    printf("%d\n", getgroups(0, NULL));
    return 3;
}

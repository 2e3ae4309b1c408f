/*
 * Ways of leaving that call no interposed function. "raw": the only thread ends by the system call that ends a thread. "main": the first thread ends and no
 * other is there. "last": another thread outlives the first and returns. Children of vfork whose exec fails: "vfork-exit" ends by exit,
 * "vfork-_exit" by _exit; the parent works on, and ends by "return", or by exit.
 */
#include "work.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *outlive(void *main_thread) {
    pthread_join(*(pthread_t *)main_thread, NULL);
    struct timespec pause = {0, 400000000};
    nanosleep(&pause, NULL);
    work(1000);
    return NULL;
}

static void farewell(void) {
    static const char word[] = "farewell\n";
    if (write(1, word, sizeof word - 1) < 0)
        _exit(9);
}

int main(int argc, char **argv) {
    static pthread_t self;
    const char *how = argc > 1 ? argv[1] : "";
    work(1000);
    atexit(farewell);
    if (!strcmp(how, "raw")) {
        __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(5) : "rcx", "r11", "memory");
    } else if (!strcmp(how, "main")) {
        pthread_exit(NULL);
    } else if (!strcmp(how, "last")) {
        pthread_t other;
        self = pthread_self();
        pthread_create(&other, NULL, outlive, &self);
        pthread_detach(other);
        pthread_exit(NULL);
    } else if (!strncmp(how, "vfork", 5)) {
        pid_t child = vfork();
        if (child == 0) {
            execl("/nowhere/at/all", "all", (char *)0);
            if (!strcmp(how, "vfork-exit"))
                exit(4);
            _exit(4);
        }
        int status;
        waitpid(child, &status, 0);
        work(1000);
        if (argc > 2)
            exit(WIFEXITED(status) ? WEXITSTATUS(status) : 9);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 9;
    }
    return 0;
}

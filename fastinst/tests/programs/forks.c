/* Twenty children, half of which _exit; one by vfork and exec, one by system; a thread works meanwhile. */
#include "work.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *background(void *unused) {
    work(100000);
    return unused;
}

int main(void) {
    pthread_t thread;
    int status, right = 0;
    pthread_create(&thread, NULL, background, NULL);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            work(1000);
            if (i % 2)
                _exit(3);
            exit(4);
        }
        waitpid(child, &status, 0);
        right += WIFEXITED(status) && WEXITSTATUS(status) == (i % 2 ? 3 : 4);
    }
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    waitpid(child, &status, 0);
    right += status == 0;
    right += system("true") == 0;
    pthread_join(thread, NULL);
    work(1000);
    printf("%d\n", right);
    return 0;
}

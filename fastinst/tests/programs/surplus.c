/* Loads libraries late, whose thread data come out of what the loader keeps for such: those in the
   folder of the first argument, as many as the second says. "count" behind it tells how many could
   be loaded. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t is_over;

static void end(int signal)
{
    (void)signal;
    is_over = 1;
}

int main(int count, char **words)
{
    int most = atoi(words[2]), loaded = 0;
    for (; loaded < most; loaded++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/late%d.so", words[1], loaded);
        if (!dlopen(name, RTLD_NOW))
            break;
    }
    if (count > 3) {
        printf("%d\n", loaded);
        return 0;
    }
    signal(SIGTERM, end);
    puts("ready");
    fflush(stdout);
    while (!is_over)
        usleep(1000);
    return 0;
}

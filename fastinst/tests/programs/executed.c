/* Prints its arguments, and what the environment says of preloading. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        printf("%s ", argv[i]);
    const char *preload = getenv("LD_PRELOAD");
    printf("LD_PRELOAD: %s OTHER: %s\n", preload ? preload : "none", getenv("OTHER"));
    return 42;
}

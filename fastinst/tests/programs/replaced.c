/* A program and its library, in two versions. While the program runs, its files are replaced. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile long sum;

#ifdef SECOND
/* Another length, so that nothing lies where it lies in the first version. */
__attribute__((noinline)) long another(long a, long b) {
    if (a > b)
        sum += a * b;
    return a ^ b;
}
#define hot second
#line 200
#else
#define hot first
#line 100
#endif
__attribute__((noinline)) long hot(long n) {
    for (long i = 0; i < n; i++)
        sum += i;
    return sum;
}

#ifdef LIBRARY
__attribute__((noinline)) long work(long n) { return hot(n) + 1; }
#else
/* Its library; the command that replaces files; what it does then. */
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 2;
    long (*work)(long) = (long (*)(long))dlsym(library, "work");
    for (int i = 0; i < 20; i++)
        work(1000000), hot(1000000);
    if (system(argv[2]))
        return 3;
    if (strcmp(argv[3], "wait") == 0) {
        puts("ready");
        fflush(stdout);
        for (int i = 0; i < 100000; i++)
            work(100000), hot(100000);
    } else if (strcmp(argv[3], "reload") == 0) {
        dlclose(library);
        library = dlopen(argv[1], RTLD_NOW);
        work = (long (*)(long))dlsym(library, "work");
        for (int i = 0; i < 20; i++)
            work(20000000);
        printf("%ld\n", sum);
        return 0;
    }
    for (int i = 0; i < 20; i++)
        work(1000000), hot(1000000);
    printf("%ld\n", sum);
    return 0;
}
#endif

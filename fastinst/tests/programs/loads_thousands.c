/* Calls a function of its own, loads a library of thousands of functions, and has them called. */
#include <dlfcn.h>
#include <stdio.h>

static volatile int sink;

__attribute__((noinline)) int own(int x) {
    for (int i = 0; i < 10; i++) sink = x * i;
    return x + sink;
}

int main(int argc, char **argv) {
    (void)argc;
    for (int i = 0; i < 1000; i++) own(i);
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*run)(void) = library ? (int (*)(void))dlsym(library, "run") : NULL;
    if (!run) {
        puts(dlerror());
        return 2;
    }
    return run();
}

/* Burns four fifths of its CPU time in a library (`guest`), which it then unloads, and a fifth in its own function `host`. */
#include <dlfcn.h>

static volatile unsigned long sum;

static void burn(long turns) {
    while (turns--)
        sum += turns;
}

#ifdef LIBRARY
void guest(long turns) {
    burn(turns);
    sum++;
}
#else
__attribute__((noinline)) void host(long turns) {
    burn(turns);
    sum++;
}

int main(int argc, char **argv) {
    void *library = dlopen(argv[argc - 1], RTLD_NOW);
    void (*guest)(long) = library ? (void (*)(long))dlsym(library, "guest") : 0;
    if (!guest)
        return 1;
    for (int i = 0; i < CALLS; i++)
        guest(100000);
    if (dlclose(library))
        return 2;
    for (int i = 0; i < CALLS / 4; i++)
        host(100000);
    return 0;
}
#endif

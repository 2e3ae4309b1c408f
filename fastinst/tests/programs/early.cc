// A library, and with MAIN a program: constructors and destructors of globals, which run before and after everybody else's.
#include <cstdio>
#include <cstdlib>

static volatile int sink;

#ifdef MAIN
#define NAME program
int library_works(int n);
#else
#define NAME library
#endif
#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)
// One of each: the loader would take the program's for the library's, too.
#define Global NAMED(NAME, _global)

__attribute__((noinline)) int NAMED(NAME, _leaf)(int x) {
    sink = x;
    return x + 1;
}

__attribute__((constructor(101))) static void first() {
    for (int i = 0; i < 100; i++)
        NAMED(NAME, _leaf)(i);
}

struct Global {
    Global() {
        for (int i = 0; i < 200; i++)
            NAMED(NAME, _leaf)(i);
    }
    ~Global() {
        for (int i = 0; i < 300; i++)
            NAMED(NAME, _leaf)(i);
        std::puts("destroyed");
    }
} global;

#ifdef MAIN
static void at_the_end() {
    for (int i = 0; i < 400; i++)
        program_leaf(i);
}

int main() {
    static Global late;
    std::atexit(at_the_end);
    std::printf("%d\n", library_works(1000));
    return 2;
}
#else
int library_works(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += library_leaf(i);
    return sum;
}
#endif

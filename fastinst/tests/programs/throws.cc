// Throws, catches and throws again: as often as it says.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

static int inner(int i) {
    if (i % 3 == 0) throw std::runtime_error("third");
    return i;
}

static int outer(int i) {
    try {
        return inner(i);
    } catch (const std::exception &) {
        if (i % 6 == 0) throw;
        return -1;
    }
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 600, caught = 0;
    for (int i = 0; i < count; i++) {
        try {
            caught += outer(i) < 0;
        } catch (...) {
            caught += 2;
        }
    }
    std::printf("%d\n", caught);
}

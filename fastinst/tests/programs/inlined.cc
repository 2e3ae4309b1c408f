// Constructors that are inlined into one another: debug information has one symbol for all variants
// of a constructor, the table of symbols another for each.
#include <cstdio>

static long touched;

__attribute__((noinline)) static void touch(long by) { touched += by; }

struct Base {
    long value;
    __attribute__((always_inline)) explicit Base(long of) : value(of) { touch(of); }
};

struct Box : Base {
    __attribute__((always_inline)) explicit Box(long of) : Base(of + 1) {}
    virtual ~Box() {}
};

__attribute__((noinline)) static long makes(long count) {
    long sum = 0;
    for (long n = 0; n < count; n++) {
        Box box(n);
        sum += box.value;
    }
    return sum;
}

int main() {
    std::printf("%ld %ld\n", makes(70), touched);
    return 0;
}

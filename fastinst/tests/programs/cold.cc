// A function that spends its time in a part that the compiler splits off, since a block that calls
// a cold function is rarely executed. An exception leaves the function from there, too.
#include <cstdio>

static volatile long rare_calls;

__attribute__((cold, noinline)) static void rare() {
    rare_calls = rare_calls + 1;
    if (rare_calls == 50) throw 0;
}

__attribute__((noinline)) long divided(long of) {
    if (of % 2 == 0) return of;
    rare();
    volatile long sum = 0;
    for (int i = 0; i < 2000000; i++) sum = sum + i;
    return sum;
}

int main() {
    long sum = 0;
    for (long i = 0; i < 100; i++) {
        try {
            sum += divided(i);
        } catch (int) {
        }
    }
    std::printf("%ld %ld\n", sum, long(rare_calls));
}

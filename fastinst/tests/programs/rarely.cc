// A function that spends its time in a part that the compiler takes for rarely executed, and splits off: its way out by
// an exception.
static volatile long sink;

struct Slow {
    __attribute__((always_inline, no_instrument_function)) ~Slow() {
        for (long i = 0; i < 600000000; i++)
            sink = i;
    }
};

__attribute__((noinline)) void leave(int x) {
    if (x == 7)
        throw x;
    sink = x;
}

__attribute__((noinline)) int deep(int x) {
    if (x != 7)
        return x + 1;
    Slow slow;
    leave(x);
    __builtin_unreachable();
}

int main() {
    int sum = 0;
    for (int i = 0; i < 10; i++) {
        try {
            sum += deep(i);
        } catch (int x) {
            sum += x;
        }
    }
    return sum == 0;
}

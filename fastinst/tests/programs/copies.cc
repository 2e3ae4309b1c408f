// Copies of one template in two libraries and a program: PART says which of them this is.
#include <cstdio>

static volatile int sink;

template <typename T> struct Sum {
    T total{};
    __attribute__((noinline)) void add(T x) {
        sink = 1;
        total += x;
    }
    inline T twice() { return total + total; }
};

#if PART == 1
long first(int n) {
    Sum<long> sum;
    for (int i = 0; i < n; i++)
        sum.add(i);
    return sum.twice();
}
#elif PART == 2
double second(int n) {
    Sum<double> sum;
    Sum<long> other;
    for (int i = 0; i < n; i++) {
        sum.add(i);
        other.add(i);
    }
    return sum.twice() + static_cast<double>(other.twice());
}
#else
long first(int n);
double second(int n);

int main() {
    Sum<long> sum;
    for (int i = 0; i < 500; i++)
        sum.add(i);
    std::printf("%ld %ld %.1f\n", sum.twice(), first(1000), second(2000));
}
#endif

static volatile int sink;

__attribute__((noinline)) int plugged(int x) {
    sink = x;
    return x + 1;
}

int plugin(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += plugged(i);
    return sum;
}

// Threads that are cancelled at any instruction, and clean up: in functions that are called as often as possible.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <sched.h>

#define HERE extern "C" __attribute__((noipa))
static std::atomic<int> cleaned;
static unsigned long turns;
struct Held {
    ~Held() { cleaned++; }
};
HERE unsigned long leaf(unsigned long x) { return x * 6364136223846793005UL + 1; }
HERE unsigned long calls(unsigned long x) { return leaf(x) + 1; }
HERE void loop() {
    // No member of std::atomic: those are noexcept, so that a cancellation there would terminate.
    for (unsigned long x = 1;; x = calls(x)) __atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED);
}
static void *work(void *) {
    Held held;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    loop();
    return nullptr;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 200;
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, work, nullptr);
        unsigned long enough = __atomic_load_n(&turns, __ATOMIC_RELAXED) + 1000;
        while (__atomic_load_n(&turns, __ATOMIC_RELAXED) < enough) sched_yield();
        pthread_cancel(thread);
        pthread_join(thread, nullptr);
    }
    std::printf("%d of %d cleaned up\n", cleaned.load(), count);
}

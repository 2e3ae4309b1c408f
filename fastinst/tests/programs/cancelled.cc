// Threads that are cancelled at any instruction, and clean up: in functions that are called as often as possible.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>

#define HERE extern "C" __attribute__((noipa))
static std::atomic<int> begun, cleaned;
struct Held {
    ~Held() { cleaned++; }
};
HERE unsigned long leaf(unsigned long x) { return x * 6364136223846793005UL + 1; }
HERE unsigned long calls(unsigned long x) { return leaf(x) + 1; }
HERE void loop() {
    for (unsigned long x = 1;; x = calls(x)) asm volatile("");
}
static void *work(void *) {
    Held held;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    begun++;
    loop();
    return nullptr;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 200;
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, work, nullptr);
        while (begun == i) usleep(10);
        usleep(100);
        pthread_cancel(thread);
        pthread_join(thread, nullptr);
    }
    std::printf("%d of %d cleaned up\n", cleaned.load(), count);
}

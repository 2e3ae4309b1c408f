// Threads whose last words are probed: destructors of thread_local objects, of keys that set themselves again, of detached threads.
#include <atomic>
#include <cstdio>
#include <pthread.h>
#include <semaphore.h>

static volatile int sink;
static pthread_key_t again;
static sem_t gone;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

struct Farewell {
    int words = 0;
    ~Farewell() {
        for (int i = 0; i < words; i++)
            leaf(i);
    }
};

thread_local Farewell farewell;

// A key's destructor may set the key again: up to four rounds, after the destructors of thread_local objects.
static void once_more(void *value) {
    long left = reinterpret_cast<long>(value);
    leaf(1);
    if (left > 1)
        pthread_setspecific(again, reinterpret_cast<void *>(left - 1));
    else
        sem_post(&gone);
}

static void *live(void *number) {
    farewell.words = 5;
    pthread_setspecific(again, reinterpret_cast<void *>(3));
    for (int i = 0; i < 20; i++)
        leaf(i);
    if (reinterpret_cast<long>(number) % 2)
        pthread_exit(nullptr);
    return nullptr;
}

int main() {
    pthread_key_create(&again, once_more);
    sem_init(&gone, 0, 0);
    for (long i = 0; i < 300; i++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, live, reinterpret_cast<void *>(i));
        if (i % 3)
            pthread_join(thread, nullptr);
        else
            pthread_detach(thread);
    }
    for (int i = 0; i < 300; i++)
        sem_wait(&gone);
    farewell.words = 7;
    std::puts("300 gone");
}

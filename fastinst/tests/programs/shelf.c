/* Loads and unloads libraries in a loop, as fast as can be: in two threads, while two others run functions of the program itself. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { ROUNDS = 150 };

static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

static void *work(void *unused) {
    for (int i = 0; i < 300000; i++)
        leaf(i);
    return unused;
}

static void *once(void *plugin) {
    return (void *)(intptr_t)((int (*)(int))(intptr_t)plugin)(100);
}

static void *borrow(void *path) {
    intptr_t sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        void *library = dlopen(path, i % 2 ? RTLD_NOW : RTLD_LAZY);
        void *plugin = library ? dlsym(library, "plugin") : NULL;
        if (!plugin)
            return (void *)-1;
        void *result;
        /* Sometimes it was another thread, which has just ended, that ran it. */
        if (i % 5 == 0) {
            pthread_t thread;
            pthread_create(&thread, NULL, once, plugin);
            pthread_join(thread, &result);
        } else {
            result = once(plugin);
        }
        sum += (intptr_t)result;
        if (dlclose(library))
            return (void *)-2;
    }
    return (void *)sum;
}

int main(int argc, char **argv) {
    pthread_t threads[4];
    void *results[4];
    if (argc < 3)
        return 1;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i < 2 ? borrow : work, i < 2 ? argv[i + 1] : NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], &results[i]);
    printf("%ld %ld\n", (long)(intptr_t)results[0], (long)(intptr_t)results[1]);
    return 0;
}

/* Functions with arguments of all kinds, which it says how often it has called, and with what. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT __attribute__((noinline, noclone))

volatile long sink;

/* The text is not read: an address that leads nowhere does no harm here. */
KEPT long parse(const char *text, int number, unsigned char kind) {
    for (int i = 0; i < 10; i++) sink += (long)text + kind + i;
    return number * 2;
}

KEPT int many(unsigned long value) {
    sink += value;
    sink ^= 3;
    return (int)(value % 3);
}

KEPT int hot(int value) {
    sink += value;
    sink ^= 5;
    return value & 1;
}

/* Ends by a jump to another function. */
KEPT int tail(int value) {
    sink += value;
    sink ^= 7;
    return hot(value + 1);
}

KEPT int deep(int levels) {
    sink += levels;
    int below = levels > 0 ? deep(levels - 1) : 0;
    sink ^= below;
    return below + 1;
}

static void *thread(void *unused) {
    (void)unused;
    for (int i = 0; i < 15; i++) parse("alpha", -1, 'a');
    return NULL;
}

int main(int argc, char **argv) {
    int calls = argc > 1 ? atoi(argv[1]) : 0;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, thread, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    char copy[8];
    strcpy(copy, "beta");
    for (int i = 0; i < 20; i++) parse(copy, 7, 'b');
    for (int i = 0; i < 3; i++) parse((const char *)8, 0, '\n');
    for (int i = 0; i < 2; i++) parse(NULL, 0, 0);
    for (int i = 0; i < 200; i++) many(i);
    for (int i = 0; i < 5; i++) tail(i);
    deep(9);
    for (int i = 0; i < calls; i++) hot(i);
    printf("%ld\n", sink != 42 ? 1L : 0L);
    return 0;
}

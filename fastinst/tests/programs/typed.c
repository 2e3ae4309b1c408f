/* Functions of whose arguments debug information tells. */
#include <stdio.h>

#ifdef __clang__
#define KEPT __attribute__((noinline))
#else
#define KEPT __attribute__((noipa))
#endif

enum colour { RED, GREEN = 5, NONE = -1 };
typedef const enum colour shade;
typedef unsigned char byte;
struct large { long a, b, c; };
struct small { int a; };

volatile long sink;

KEPT long parse(const char *text, int number, byte kind, _Bool strict, shade colour, double weight, unsigned short port) {
    sink += (long)text + number + kind + strict + (int)colour + (long)weight + port;
    return number * 2L;
}

KEPT const char *name_of(enum colour colour) {
    sink += (int)colour;
    return colour == RED ? "red" : colour == GREEN ? "green" : NULL;
}

/* Where it is returned to is told first. */
KEPT struct large make(short seed) {
    sink += seed;
    return (struct large){seed, seed + 1, sink};
}

/* What is behind a structure may be anywhere. */
KEPT signed char behind(char letter, struct small given, int last) {
    sink += letter + given.a + last;
    return (signed char)-letter;
}

KEPT void quiet(void) {
    sink++;
}

int main(void) {
    for (int i = 0; i < 30; i++) parse("alpha", -1, 200, i < 30, GREEN, 0.5, 80);
    for (int i = 0; i < 20; i++) parse(NULL, 7, 0, 0, NONE, 1.5, 65535);
    for (int i = 0; i < 3; i++) name_of(RED);
    for (int i = 0; i < 2; i++) name_of((enum colour)7);
    for (int i = 0; i < 4; i++) make(-3);
    for (int i = 0; i < 5; i++) behind('x', (struct small){i}, i);
    quiet();
    printf("%ld\n", sink != 42 ? 1L : 0L);
    return 0;
}

/* Small programs of the kinds that profilers by rewriting are measured with: KERNEL is one of them,
   TYPE what it computes with. */
#include "work.h"
#include <stdio.h>

#define APART __attribute__((noinline))
static uint32_t chance = 2463534242u;
static uint32_t next(void) {
    return chance ^= chance << 13, chance ^= chance >> 17, chance ^= chance << 5;
}

#ifdef MULTIPLY
static APART TYPE product(TYPE a, TYPE b) { return a * b; }
static double kernel(void) {
    TYPE all = 1;
    for (int i = 1; i < 4000000; i++) all = product(all, (TYPE)(i % 3 + 1)) + 1;
    return (double)(all == 0);
}
#elif defined SUM
static APART TYPE sum(const TYPE *numbers, int n) {
    TYPE all = 0;
    for (int i = 0; i < n; i++) all += numbers[i];
    return all;
}
static double kernel(void) {
    static TYPE numbers[4096];
    double all = 0;
    for (int i = 0; i < 4096; i++) numbers[i] = (TYPE)(next() % 100);
    /* Other numbers each time: what is always the same is computed once. */
    for (int i = 0; i < 4000; i++) numbers[i] += (TYPE)1, all += (double)sum(numbers, 4096);
    return all;
}
#elif defined QUICKSORT
static APART void swap(TYPE *a, TYPE *b) { TYPE c = *a; *a = *b, *b = c; }
static APART int split(TYPE *numbers, int low, int high) {
    TYPE pivot = numbers[high];
    int at = low;
    for (int i = low; i < high; i++) if (numbers[i] < pivot) swap(&numbers[i], &numbers[at++]);
    swap(&numbers[at], &numbers[high]);
    return at;
}
static APART void sort(TYPE *numbers, int low, int high) {
    if (low >= high) return;
    int at = split(numbers, low, high);
    sort(numbers, low, at - 1), sort(numbers, at + 1, high);
}
static double kernel(void) {
    static TYPE numbers[200000];
    for (int i = 0; i < 200000; i++) numbers[i] = (TYPE)next();
    sort(numbers, 0, 199999);
    return (double)numbers[100000];
}
#elif defined IMAGE
enum { WIDE = 640, HIGH = 480 };
static unsigned char from[HIGH][WIDE], to[HIGH][WIDE];
static APART int clamp(int value) { return value < 0 ? 0 : value > 255 ? 255 : value; }
static APART int around(int y, int x) {
    int all = 5 * from[y][x] - from[y - 1][x] - from[y + 1][x] - from[y][x - 1] - from[y][x + 1];
    return clamp(all);
}
static APART void convolve(void) {
    for (int y = 1; y < HIGH - 1; y++) for (int x = 1; x < WIDE - 1; x++) to[y][x] = around(y, x);
}
static APART void threshold(void) {
    for (int y = 0; y < HIGH; y++)
        for (int x = 0; x < WIDE; x++) from[y][x] = to[y][x] > 127 ? 255 : from[y][x] / 2;
}
static double kernel(void) {
    for (int y = 0; y < HIGH; y++) for (int x = 0; x < WIDE; x++) from[y][x] = next();
    for (int i = 0; i < 12; i++) convolve(), threshold();
    return (double)checksum(7, to, sizeof to);
}
#elif defined GAME
enum { MANY = 256, WIDE = 160, HIGH = 144 };
struct thing { int x, y, dx, dy, lives; };
static struct thing things[MANY];
static unsigned char screen[HIGH][WIDE];
static APART int within(int at, int size) { return at >= 0 && at < size; }
static APART void turn(struct thing *t) { t->dx = -t->dx, t->dy = (int)(next() % 3) - 1; }
static APART void move(struct thing *t) {
    if (!within(t->x + t->dx, WIDE) || !within(t->y + t->dy, HIGH)) turn(t);
    if (within(t->x + t->dx, WIDE)) t->x += t->dx;
    if (within(t->y + t->dy, HIGH)) t->y += t->dy;
}
static APART void draw(const struct thing *t) {
    for (int y = 0; y < 4; y++) for (int x = 0; x < 4; x++)
        if (within(t->y + y, HIGH) && within(t->x + x, WIDE))
            screen[t->y + y][t->x + x] ^= t->lives;
}
static APART void frame(void) {
    for (int i = 0; i < MANY; i++) move(&things[i]), draw(&things[i]);
}
static double kernel(void) {
    for (int i = 0; i < MANY; i++)
        things[i] = (struct thing){next() % WIDE, next() % HIGH, 1, 1, i};
    for (int i = 0; i < 400; i++) frame();
    return (double)checksum(7, screen, sizeof screen);
}
#endif

int main(int argc, char **argv) {
    double all = 0;
    for (int left = rounds(argc, argv, 1); left > 0; left--) all += kernel();
    printf("%.0f\n", all);
    return 0;
}

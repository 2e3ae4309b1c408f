/* Functions that call themselves, directly and through each other, and a sorted tree. */
#include "work.h"
#include <stdio.h>

struct node {
    uint64_t key;
    struct node *left, *right;
};

__attribute__((noinline)) static unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

__attribute__((noinline)) static unsigned ackermann(unsigned m, unsigned n) {
    if (!m) return n + 1;
    return n ? ackermann(m - 1, ackermann(m, n - 1)) : ackermann(m - 1, 1);
}

static unsigned is_odd(unsigned n);
__attribute__((noinline)) static unsigned is_even(unsigned n) { return n ? is_odd(n - 1) ^ 1u ^ (n == 0) ^ 1u : 1; }
__attribute__((noinline)) static unsigned is_odd(unsigned n) { return n ? is_even(n - 1) ^ (n == 0) : 0; }

__attribute__((noinline)) static struct node *insert(struct node *tree, struct node *new) {
    if (!tree) return new;
    if (new->key < tree->key)
        tree->left = insert(tree->left, new);
    else
        tree->right = insert(tree->right, new);
    return tree;
}

__attribute__((noinline)) static uint64_t total(const struct node *tree) {
    return tree ? total(tree->left) * 3 + tree->key + total(tree->right) : 1;
}

__attribute__((noinline)) static uint64_t grow(unsigned count, uint64_t seed) {
    struct node *nodes = calloc(count, sizeof *nodes), *tree = NULL;
    for (unsigned i = 0; i < count; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        nodes[i].key = seed;
        tree = insert(tree, &nodes[i]);
    }
    uint64_t sum = total(tree);
    free(nodes);
    return sum;
}

int main(int argc, char **argv) {
    uint64_t sum = 0;
    int count = rounds(argc, argv, 60);
    for (int round = 0; round < count; round++) {
        sum += fib(25) + ackermann(2, 150 + (unsigned)round % 3) + is_even(5000) + grow(8000, 42 + (unsigned)round);
    }
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}

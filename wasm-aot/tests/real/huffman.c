// Packs a text by the frequencies of its letters, unpacks it again, and compares.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    unsigned weight;
    int letter;
    struct node *left, *right;
};

static struct node *made(unsigned weight, int letter, struct node *left, struct node *right) {
    struct node *node = malloc(sizeof *node);
    *node = (struct node){weight, letter, left, right};
    return node;
}

static int by_weight(const void *a, const void *b) {
    const struct node *one = *(struct node *const *)a, *other = *(struct node *const *)b;
    if (one->weight != other->weight) return one->weight < other->weight ? 1 : -1;
    return other->letter - one->letter;
}

static char codes[256][64];

static void spell(const struct node *node, char *code, int depth) {
    if (!node->left) {
        code[depth] = 0;
        strcpy(codes[node->letter], depth ? code : "0");
        return;
    }
    code[depth] = '0';
    spell(node->left, code, depth + 1);
    code[depth] = '1';
    spell(node->right, code, depth + 1);
}

int main(void) {
    enum { LENGTH = 20000 };
    static char text[LENGTH + 1];
    uint32_t state = 1;
    for (int i = 0; i < LENGTH; i++) {
        state = state * 1664525 + 1013904223;
        unsigned draw = state >> 24;
        text[i] = "etaoin shrdlu"[draw < 100 ? draw % 3 : draw % 13];
    }
    unsigned weights[256] = {0};
    for (int i = 0; i < LENGTH; i++) weights[(unsigned char)text[i]]++;
    struct node *heap[256];
    int count = 0;
    for (int letter = 0; letter < 256; letter++)
        if (weights[letter]) heap[count++] = made(weights[letter], letter, 0, 0);
    int made_up = 256;
    while (count > 1) {
        qsort(heap, count, sizeof *heap, by_weight);
        struct node *left = heap[--count], *right = heap[--count];
        heap[count++] = made(left->weight + right->weight, made_up++, left, right);
    }
    char code[64];
    spell(heap[0], code, 0);
    size_t bits = 0;
    uint8_t *packed = calloc(LENGTH, 8);
    for (int i = 0; i < LENGTH; i++)
        for (const char *bit = codes[(unsigned char)text[i]]; *bit; bit++, bits++) packed[bits / 8] |= (*bit - '0') << bits % 8;
    const struct node *at = heap[0];
    int unpacked = 0;
    for (size_t bit = 0; bit < bits; bit++) {
        at = packed[bit / 8] >> bit % 8 & 1 ? at->right : at->left;
        if (at->left) continue;
        if (text[unpacked++] != at->letter) return printf("wrong at %d\n", unpacked), 1;
        at = heap[0];
    }
    printf("%d letters, %zu bits, %d unpacked, e is %s\n", LENGTH, bits, unpacked, codes['e']);
    return 0;
}

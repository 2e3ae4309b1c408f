/*
 * Two functions that are inlined into a third, and whose ends an optimising compiler merges: one is called always, the other once in a
 * thousand times. `rare` comes late, when the ends have long been those of `often`.
 */
#include <stdio.h>
#include <string.h>

struct item {
    char key[8];
    unsigned count;
    struct item *next;
};

static struct item *buckets[64];
static struct item items[20000];
static unsigned used;

static struct item *often(const char *key, unsigned bucket) {
    for (struct item *item = buckets[bucket]; item; item = item->next)
        if (!strcmp(item->key, key))
            return item;
    return NULL;
}

static struct item *rare(const char *key, unsigned bucket) {
    struct item *item = &items[used++];
    strcpy(item->key, key);
    item->next = buckets[bucket];
    buckets[bucket] = item;
    return item;
}

__attribute__((noinline)) static void count(const char *key) {
    unsigned bucket = (unsigned char)key[0] % 64;
    struct item *item = often(key, bucket);
    if (!item)
        item = rare(key, bucket);
    item->count++;
}

int main(void) {
    for (unsigned i = 0; i < 400000; i++) {
        unsigned number = i < 200000 || i % 1000 ? 0 : i / 1000;
        char key[8] = {(char)('a' + number % 64), (char)('a' + number / 64), 0};
        count(key);
    }
    printf("%u\n", used);
    return 0;
}

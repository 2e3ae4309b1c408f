/* The store of the tutorial's server: values by keys, and a journal of changes.

   A full journal is compacted: rarely, and by the unlucky thread that fills it. */
#include "store.h"
#include <pthread.h>
#include <stdlib.h>

enum { BUCKETS = 1 << 12 };
#ifndef JOURNAL
#define JOURNAL 20000
#endif

struct entry { struct entry *next; unsigned key; int value; };
struct change { unsigned key; int value; };

static struct entry *buckets[BUCKETS];
static struct change journal[JOURNAL];
static int journaled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct entry *lookup(unsigned key) {
    struct entry *entry = buckets[key % BUCKETS];
    while (entry && entry->key != key) entry = entry->next;
    return entry;
}

static int by_key(const void *a, const void *b) {
    const struct change *left = a, *right = b;
    return (left->key > right->key) - (left->key < right->key);
}

static void compact(void) {
    qsort(journal, journaled, sizeof *journal, by_key);
    journaled = 0;
}

static void append(unsigned key, int value) {
    journal[journaled].key = key;
    journal[journaled++].value = value;
    if (journaled == JOURNAL) compact();
}

void put(unsigned key, int value) {
    pthread_mutex_lock(&lock);
    struct entry *entry = lookup(key);
    if (!entry) {
        entry = malloc(sizeof *entry);
        *entry = (struct entry){buckets[key % BUCKETS], key, 0};
        buckets[key % BUCKETS] = entry;
    }
    entry->value = value;
    append(key, value);
    pthread_mutex_unlock(&lock);
}

int get(unsigned key) {
    pthread_mutex_lock(&lock);
    struct entry *entry = lookup(key);
    int value = entry ? entry->value : -1;
    pthread_mutex_unlock(&lock);
    return value;
}

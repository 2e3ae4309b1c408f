/*
 * The sample of `fastinst demo`: counts words of a text that it makes up, in a hash table and in a sorted array, and says which
 * are the most frequent. Some functions are called millions of times, some once; one is slow now and then.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 5000, TEXT = 6000000, BUCKETS = 4096 };

struct word {
    char text[16];
    unsigned count;
    struct word *next;
};

static struct word *buckets[BUCKETS];
static struct word words[WORDS];
static unsigned used;
static uint64_t state = 42;

static uint32_t next_random(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* Small numbers are frequent, as common words are. */
static unsigned pick_word(void) {
    unsigned number = next_random() % WORDS;
    while (number > 3 && next_random() % 4)
        number /= 2;
    return number;
}

static void spell(unsigned number, char text[16]) {
    static const char syllables[16][4] = {"ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "wa"};
    text[0] = '\0';
    do {
        strcat(text, syllables[number % 16]);
        number /= 16;
    } while (number);
}

static uint32_t hash(const char *text) {
    uint32_t value = 2166136261u;
    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * 16777619u;
    return value;
}

static struct word *find(const char *text, uint32_t bucket) {
    for (struct word *word = buckets[bucket]; word; word = word->next)
        if (!strcmp(word->text, text))
            return word;
    return NULL;
}

static struct word *insert(const char *text, uint32_t bucket) {
    struct word *word = &words[used++];
    strcpy(word->text, text);
    word->next = buckets[bucket];
    buckets[bucket] = word;
    return word;
}

static void count_word(const char *text) {
    uint32_t bucket = hash(text) % BUCKETS;
    struct word *word = find(text, bucket);
    if (!word)
        word = insert(text, bucket);
    word->count++;
}

static int by_count(const void *a, const void *b) {
    const struct word *one = a, *other = b;
    return one->count != other->count ? (one->count < other->count ? 1 : -1) : strcmp(one->text, other->text);
}

/* Sorts a copy of everything: slow, and called rarely. */
static void rank(struct word ranked[WORDS]) {
    memcpy(ranked, words, sizeof(struct word) * used);
    qsort(ranked, used, sizeof *ranked, by_count);
}

static void read_text(unsigned length) {
    static struct word ranked[WORDS];
    for (unsigned i = 0; i < length; i++) {
        char text[16];
        spell(pick_word(), text);
        count_word(text);
        if (i % (length / 20) == 0)
            rank(ranked);
    }
}

static void print_result(void) {
    static struct word ranked[WORDS];
    rank(ranked);
    printf("%u different words; the most frequent:", used);
    for (unsigned i = 0; i < 5 && i < used; i++)
        printf(" %s (%u)", ranked[i].text, ranked[i].count);
    printf("\n");
}

int main(void) {
    read_text(TEXT);
    print_result();
    return 0;
}

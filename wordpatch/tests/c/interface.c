/* Uses every function of wordpatch.h the way its comments say. Prints what went wrong and exits with 1, or exits with 0. */
#define _GNU_SOURCE
#include "wordpatch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define CHECK(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s (last error: %s)\n", __LINE__, #condition, wordpatch_last_error());           \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

typedef uint32_t function(void);

/* mov eax, number; ret; nop; nop */
static uint64_t returning(uint32_t number) {
    return 0xb8 | (uint64_t)number << 8 | (uint64_t)0x9090c3 << 40;
}

enum { ONE = 1, OTHER = 0x05050505 };

static unsigned char *code;

/* A function that returns 1, at an offset of the page. */
static unsigned char *make(size_t offset) {
    uint64_t word = returning(ONE);
    memcpy(code + offset, &word, sizeof word);
    return code + offset;
}

static uint32_t call(const unsigned char *at) {
    function *callee;
    memcpy(&callee, &at, sizeof callee);
    return callee();
}

static atomic_bool stop;
static atomic_int torn;
static atomic_long calls;

static void *execute(void *at) {
    while (!stop) {
        uint32_t returned = call(at);
        if (returned != ONE && returned != OTHER)
            torn++;
        calls++;
    }
    return NULL;
}

/* Patches a function inside a quadword and one across a line while another thread runs it. */
static int while_another_thread_runs_it(size_t offset) {
    unsigned char *at = make(offset);
    pthread_t executer;
    stop = false;
    CHECK(pthread_create(&executer, NULL, execute, at) == 0);
    for (int round = 0; round < 500; round++) {
        CHECK(wordpatch_patch(at, returning(round % 2 ? ONE : OTHER)));
        long before = calls;
        while (calls < before + 2) {
        }
    }
    stop = true;
    pthread_join(executer, NULL);
    CHECK(torn == 0);
    CHECK(call(at) == ONE);
    return 0;
}

static int starts_and_finishes(void) {
    unsigned char *at = make(192 - 3);
    CHECK(wordpatch_start_patch(at, returning(OTHER)));
    CHECK(wordpatch_is_pending(at));
    CHECK(call(at) == ONE);
    CHECK(!wordpatch_start_patch(at, returning(ONE)) && strstr(wordpatch_last_error(), "being patched already"));
    CHECK(!wordpatch_patch(at, returning(ONE)));
    CHECK(!wordpatch_patch_bytes(at + 2, "\x90\x90", 2) && strstr(wordpatch_last_error(), "overlap"));
    CHECK(wordpatch_finish_patch(at));
    CHECK(!wordpatch_is_pending(at) && call(at) == OTHER);
    CHECK(!wordpatch_finish_patch(at) && strstr(wordpatch_last_error(), "no patch"));

    CHECK(wordpatch_start_patch(at, returning(ONE)));
    CHECK(wordpatch_finish_in_background(at));
    while (wordpatch_is_pending(at)) {
    }
    CHECK(wordpatch_finish_patch(at));
    CHECK(call(at) == ONE);

    unsigned char *five = make(256 - 2);
    CHECK(wordpatch_start_patch_bytes(five, "\xb8\x05\x05\x05\x05", 5));
    CHECK(wordpatch_finish_patch(five));
    CHECK(call(five) == OTHER);
    wordpatch_forget(code, 4096);
    CHECK(wordpatch_patch_bytes(five, "\xb8\x01\x00\x00\x00", 5));
    CHECK(call(five) == ONE);
    return 0;
}

static unsigned char *contended;
static atomic_int round_of, succeeded, failed_disjoint;
static pthread_barrier_t meet;

struct contender {
    unsigned char *own;
};

static void *contend(void *argument) {
    struct contender *self = argument;
    for (int round = 0; round < 200; round++) {
        pthread_barrier_wait(&meet);
        if (wordpatch_patch(contended, returning(round % 2 ? ONE : OTHER)))
            succeeded++;
        if (!wordpatch_patch(self->own, returning(round % 2 ? ONE : OTHER)))
            failed_disjoint++;
        if (pthread_barrier_wait(&meet) == PTHREAD_BARRIER_SERIAL_THREAD) {
            if (succeeded > 0)
                round_of++;
            succeeded = 0;
        }
        pthread_barrier_wait(&meet);
    }
    return NULL;
}

/* Of several threads that patch one site at least one succeeds; sites that are disjoint never fail. */
static int contenders(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct contender all[THREADS];
    contended = make(512 - 3);
    CHECK(pthread_barrier_init(&meet, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++) {
        all[i].own = make(1024 + 64 * (size_t)i - 3);
        CHECK(pthread_create(&threads[i], NULL, contend, &all[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(round_of == 200);
    CHECK(failed_disjoint == 0);
    return 0;
}

static int bad_input(void) {
    static unsigned char data[16];
    CHECK(!wordpatch_patch(NULL, 0) && strstr(wordpatch_last_error(), "null"));
    CHECK(!wordpatch_patch((void *)8, 0) && strstr(wordpatch_last_error(), "not mapped"));
    CHECK(!wordpatch_patch((void *)-16, 0) && strstr(wordpatch_last_error(), "not mapped"));
    CHECK(!wordpatch_patch(data, 0) && strstr(wordpatch_last_error(), "not as code"));
    CHECK(!wordpatch_patch_bytes(code, "", 0) && strstr(wordpatch_last_error(), "one to eight"));
    CHECK(!wordpatch_patch_bytes(code, "123456789", 9) && strstr(wordpatch_last_error(), "one to eight"));
    CHECK(!wordpatch_patch_bytes(code, NULL, 4) && strstr(wordpatch_last_error(), "null"));
    CHECK(!strchr(wordpatch_last_error(), '\n'));
    return 0;
}

/* Called when the thread's own data of the library are gone. */
static void ask(void *answer) {
    *(const char **)answer = wordpatch_last_error();
}

static void *fail_and_end(void *answer) {
    pthread_key_t key;
    if (pthread_key_create(&key, ask) == 0 && !wordpatch_patch(NULL, 0))
        pthread_setspecific(key, answer);
    return NULL;
}

static int asked_at_the_end_of_a_thread(void) {
    const char *answer = NULL;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fail_and_end, &answer) == 0);
    pthread_join(thread, NULL);
    CHECK(answer != NULL && *answer == '\0');
    return 0;
}

int main(void) {
    if (*wordpatch_last_error() != '\0')
        return 1;
    code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return 1;
    return while_another_thread_runs_it(8) || while_another_thread_runs_it(128 - 3) || starts_and_finishes() || contenders() ||
           bad_input() || asked_at_the_end_of_a_thread();
}

/* Sixteen threads, each of which compresses and restores pieces of a text. */
#include "work.h"
#include "zlib.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 16, PIECE = 256 << 10 };

struct job {
    pthread_t thread;
    const unsigned char *text;
    int rounds, failed;
    uint64_t sum;
};

static void *work(void *of) {
    struct job *job = of;
    unsigned char *packed = malloc(compressBound(PIECE)), *back = malloc(PIECE);
    for (int round = 0; round < job->rounds; round++) {
        uLongf packed_length = compressBound(PIECE), back_length = PIECE;
        if (compress2(packed, &packed_length, job->text, PIECE, 1 + round % 6) || uncompress(back, &back_length, packed, packed_length)) job->failed = 1;
        if (back_length != PIECE || memcmp(back, job->text, PIECE)) job->failed = 1;
        job->sum = checksum(job->sum, packed, packed_length);
    }
    free(packed);
    free(back);
    return NULL;
}

int main(int argc, char **argv) {
    struct job jobs[THREADS];
    unsigned char *text = some_text(THREADS * PIECE);
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){.text = text + i * PIECE, .rounds = rounds(argc, argv, 12)};
        if (pthread_create(&jobs[i].thread, NULL, work, &jobs[i])) return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(jobs[i].thread, NULL);
        if (jobs[i].failed) return 1;
        sum = checksum(sum, &jobs[i].sum, sizeof jobs[i].sum);
    }
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}

/* Uses every function of callpatch.h the way its comments say. Prints what went wrong and exits with 1, or exits with 0. */
#define _GNU_SOURCE
#include "callpatch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s (last error: %s)\n", __LINE__, #condition, callpatch_last_error());           \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

typedef int function(void);

enum { CALL = 62, TWO = 1024, THREE = 2048 };

static unsigned char *code;

static int32_t offset_to(size_t callee) {
    return (int32_t)(callee - (CALL + 5));
}

/* mov eax, 1; call two; ret. The call lies across a line. */
static void make(void) {
    static const unsigned char before[] = {0xb8, 1, 0, 0, 0, 0xe8};
    static const unsigned char two[] = {0xb8, 2, 0, 0, 0, 0xc3}, three[] = {0xb8, 3, 0, 0, 0, 0xc3};
    int32_t offset = offset_to(TWO);
    memcpy(code + CALL - 5, before, sizeof before);
    memcpy(code + CALL + 1, &offset, sizeof offset);
    code[CALL + 5] = 0xc3;
    memcpy(code + TWO, two, sizeof two);
    memcpy(code + THREE, three, sizeof three);
}

static int run(void) {
    unsigned char *entry = code + CALL - 5;
    function *callee;
    memcpy(&callee, &entry, sizeof callee);
    return callee();
}

static atomic_bool stop;
static atomic_int strange;

static void *execute(void *unused) {
    while (!stop) {
        int returned = run();
        if (returned < 1 || returned > 3)
            strange++;
    }
    return unused;
}

static int switched_while_another_thread_runs_it(void *call) {
    pthread_t executer;
    CHECK(pthread_create(&executer, NULL, execute, NULL) == 0);
    for (int round = 0; round < 2000; round++) {
        CHECK(callpatch_deactivate_call(call));
        CHECK(callpatch_activate_call(call, offset_to(round % 100 < 50 ? TWO : THREE)));
    }
    stop = true;
    CHECK(pthread_join(executer, NULL) == 0);
    CHECK(strange == 0);
    return 0;
}

static int in_a_forked_child(void *call) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int right = callpatch_deactivate_call(call) && run() == 1 && callpatch_activate_call(call, offset_to(THREE)) && run() == 3;
        _exit(right ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}

int main(void) {
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    make();
    void *call = code + CALL;
    CHECK(callpatch_last_error()[0] == '\0');
    CHECK(run() == 2);
    CHECK(callpatch_deactivate_call(call) && run() == 1);
    CHECK(callpatch_deactivate_call(call) && run() == 1);
    CHECK(callpatch_activate_call(call, offset_to(TWO)) && run() == 2);
    CHECK(callpatch_activate_call(call, offset_to(THREE)) && run() == 3);
    CHECK(callpatch_deactivate_call(call) && run() == 1);
    CHECK(callpatch_activate_call(call, offset_to(TWO)) && run() == 2);

    /* Forgotten and found again, off and on. */
    CHECK(callpatch_deactivate_call(call));
    callpatch_forget(code, 4096);
    CHECK(callpatch_activate_call(call, offset_to(TWO)) && run() == 2);
    callpatch_forget(code, 4096);
    CHECK(callpatch_activate_call(call, offset_to(THREE)) && run() == 3);

    CHECK(switched_while_another_thread_runs_it(call) == 0);
    CHECK(in_a_forked_child(call) == 0);
    CHECK(callpatch_activate_call(call, offset_to(TWO)) && run() == 2);

    /* What is refused says why, and stays. */
    code[CALL] = 0xcc;
    CHECK(!callpatch_deactivate_call(call) && code[CALL] == 0xcc);
    CHECK(strstr(callpatch_last_error(), "breakpoint") != NULL);
    code[CALL] = 0xe8;
    CHECK(!callpatch_deactivate_call(code + TWO));
    CHECK(strstr(callpatch_last_error(), "no call") != NULL && strchr(callpatch_last_error(), '\n') == NULL);
    CHECK(!callpatch_deactivate_call(NULL));
    CHECK(strstr(callpatch_last_error(), "null") != NULL);
    return 0;
}

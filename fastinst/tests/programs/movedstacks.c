/* Signal stacks where other stacks were before, and other stacks where signal stacks were:
 * functions that are called for the first time there leave as much of a signal stack as hooks
 * promise. Each is called once. With an argument the last change passes the C library's own
 * function. */
#define _GNU_SOURCE
#include "painted.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

static char *memory;
static volatile long calls;

static inline UNSEEN __attribute__((always_inline)) void mark(void) {
    char *here = __builtin_frame_address(0);
    if (here < deepest)
        deepest = here;
    calls++;
}

#define ONE(n) \
    __attribute__((noinline)) static void f##n(void) { mark(); }
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
#define ALL TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) TEN(12) TEN(13) TEN(14) TEN(15) TEN(16) TEN(17) TEN(18)
ALL
#undef ONE
#define ONE(n) f##n,
static void (*const fresh[])(void) = {ALL};
static int next;

static UNSEEN void call_some(void) {
    for (int i = 0; i < 4; i++)
        fresh[next++]();
}

static UNSEEN void handler(int signal, siginfo_t *info, void *context) {
    call_some();
}

static UNSEEN void set(void *from, unsigned flags) {
    stack_t stack = {.ss_sp = from, .ss_size = large, .ss_flags = from ? flags : SS_DISABLE};
    if (sigaltstack(&stack, NULL))
        perror("sigaltstack");
}

/* Another handler, on the stack that was interrupted, changes where signals come. */
static UNSEEN void setter(int signal, siginfo_t *info, void *context) {
    call_some();
    set(memory, 0);
    ucontext_t *interrupted = context;
    interrupted->uc_stack = (stack_t){.ss_sp = memory, .ss_size = large};
}

static UNSEEN void measure(const char *what) {
    look(memory, SIGUSR1, what);
}

static ucontext_t outside, inside;

static UNSEEN void coroutine(void) {
    call_some();
    swapcontext(&inside, &outside);
    call_some();
}

/* As far down as the frames of signals will lie. */
static UNSEEN void enter(size_t below) {
    getcontext(&inside);
    inside.uc_stack.ss_sp = memory;
    inside.uc_stack.ss_size = large - below;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
    swapcontext(&outside, &inside);
}

/* By hand, without the C library. */
static UNSEEN void go_there(size_t below) {
    char *top = memory + large - below;
    __asm__ volatile("mov %%rsp, %%rbx\n mov %0, %%rsp\n call *%1\n mov %%rbx, %%rsp\n"
                     :
                     : "r"(top), "r"(call_some)
                     : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
}

/* The memory as a stack, on all pages on which functions are called by handlers. */
static UNSEEN void use(void (*as)(size_t)) {
    for (size_t below = 0; below < 5 * 4096; below += 4096)
        as(below);
}

static UNSEEN void *new_thread(void *whole) {
    call_some();
    set(whole ? NULL : memory, 0);
    if (!whole)
        measure("a thread's");
    set(NULL, 0);
    return NULL;
}

int main(int argc, char **argv) {
    memory = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    struct sigaction other = {.sa_sigaction = setter, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR2, &other, NULL);

    use(enter);
    set(memory, 0);
    measure("a context's");
    set(NULL, 0);
    use(go_there);
    set(memory, 0);
    measure("by hand");
    set(NULL, 0);
    use(enter);
    raise(SIGUSR2);
    measure("by a handler");
    set(NULL, 0);

    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, memory, large);
    for (int turn = 0; turn < 2; turn++) {
        pthread_t thread;
        pthread_create(&thread, turn ? NULL : &attributes, new_thread, turn ? NULL : memory);
        pthread_join(thread, NULL);
    }

    use(go_there);
    if (argc > 1) {
        stack_t stack = {.ss_sp = memory, .ss_size = large};
        syscall(SYS_sigaltstack, &stack, NULL);
        measure("by the system call");
    } else {
        set(memory, SS_AUTODISARM);
        raise(SIGUSR1);
        set(memory, 0);
        measure("after one that disarms itself");
    }
    printf("%ld\n", calls);
    return 0;
}

// Calls inside of calls of "serve", and outside of them; calls that are deeper and deeper. The
// first argument says how: "calls", "jumps", "threads", "fork", "handler".
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

volatile int sum;
static volatile int room[64];

NOINLINE void leaf(int n) { sum += n; }

NOINLINE void parse(int n) {
  for (int at = 0; at < n; at++) leaf(at);
  sum++;
}

NOINLINE void serve(int n) {
  sum += 2;
  parse(n);
  sum--;
}

// One call of "serve" inside of another.
NOINLINE void deep(int n) {
  sum += n;
  if (n > 0) {
    deep(n - 1);
    leaf(n);
  } else {
    serve(1);
  }
  sum--;
}

static jmp_buf away;

NOINLINE void throws(int n) {
  parse(n);
  if (n > 0) longjmp(away, 1);
  sum--;
}

// The name has to be matched, too.
NOINLINE void serve_and_jump(int n) {
  sum += 3;
  throws(n);
  sum--;
}

// Goes on where the jump leads to, with functions whose frames lie as low as those that were left.
NOINLINE void catches(void) {
  if (!setjmp(away)) serve_and_jump(2);
  parse(7);
  volatile char lower[256];
  memset((char *)lower, 1, sizeof lower);
  sum += lower[3];
  parse(8);
}

static void calls(void) {
  parse(3);
  serve(4);
  parse(5);
  deep(6);
  parse(1);
}

static void jumps(void) {
  for (int at = 0; at < 3; at++) catches();
  serve(1);
  parse(1);
}

static pthread_barrier_t barrier;

static void *second(void *unused) {
  (void)unused;
  pthread_barrier_wait(&barrier);
  parse(100);
  serve(10);
  pthread_barrier_wait(&barrier);
  return NULL;
}

NOINLINE void serve_and_wait(void) {
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  parse(20);
}

static void threads(void) {
  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_create(&thread, NULL, second, NULL);
  serve_and_wait();
  pthread_join(thread, NULL);
  parse(30);
}

NOINLINE void serve_and_fork(void) {
  if (fork() == 0) {
    parse(40);
    return;
  }
  wait(NULL);
  parse(2);
}

static void forks(void) {
  serve_and_fork();
  parse(300);
}

static void on_signal(int signal) {
  (void)signal;
  parse(5);
}

NOINLINE void serve_and_raise(void) {
  raise(SIGUSR1);
  parse(1);
}

static void handler(void) {
  stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  sigaltstack(&stack, NULL);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  serve_and_raise();
  raise(SIGUSR1);
  parse(100);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "calls";
  if (!strcmp(how, "calls")) calls();
  if (!strcmp(how, "jumps")) jumps();
  if (!strcmp(how, "threads")) threads();
  if (!strcmp(how, "fork")) forks();
  if (!strcmp(how, "handler")) handler();
  return 0;
}

// Calls inside of spans and outside of them. The first argument says what switches recording:
// "functions" (begin, end), "signal" (SIGUSR1, SIGUSR2), "threads", "fork", "handler", "clock".
#include <pthread.h>
#include <setjmp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

volatile int sum;

NOINLINE void work(int n) { sum += n; }
NOINLINE void begin(void) { sum += 1; }
NOINLINE void end(void) { sum += 2; }
NOINLINE void other(int n) { sum += 3 * n; }

NOINLINE void times(int n) {
  for (int at = 0; at < n; at++) work(at);
}

// Open when recording begins.
NOINLINE void opens(void) {
  begin();
  times(20);
  sum++;
}

// Open when recording ends.
NOINLINE void closes(void) {
  times(5);
  end();
  times(40);
  sum++;
}

static jmp_buf away;
NOINLINE void jumps(void) {
  times(3);
  longjmp(away, 1);
}

static void functions(void) {
  times(10);
  opens();
  if (!setjmp(away)) jumps();
  closes();
  times(80);
  begin();
  times(160);
  end();
  times(320);
  end();
  begin();
  begin();
  times(2);
}

static void pause_for(int ms) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (long end = now.tv_sec * 1000000 + now.tv_nsec / 1000 + ms * 1000L;
       now.tv_sec * 1000000 + now.tv_nsec / 1000 < end;
       clock_gettime(CLOCK_MONOTONIC, &now))
    sched_yield();
}

// Returns how many calls were made in so many milliseconds.
static int for_a_while(int ms) {
  int made = 0;
  for (; ms > 0; ms--, made++) {
    work(ms);
    pause_for(1);
  }
  return made;
}

static void by_signal(void) {
  int before = for_a_while(100);
  raise(SIGUSR1);
  int within = for_a_while(500);
  raise(SIGUSR2);
  for_a_while(300);
  other(1);
  printf("%d %d\n", before, within);
}

static pthread_barrier_t barrier;
static void *second(void *unused) {
  (void)unused;
  times(1000);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  times(50);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  times(1000);
  return NULL;
}

static void threads(void) {
  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_create(&thread, NULL, second, NULL);
  pthread_barrier_wait(&barrier);
  begin();
  pthread_barrier_wait(&barrier);
  times(7);
  pthread_barrier_wait(&barrier);
  end();
  pthread_barrier_wait(&barrier);
  times(1000);
  pthread_join(thread, NULL);
}

static void forks(void) {
  times(100);
  begin();
  times(1);
  if (fork() == 0) {
    times(30);
    end();
    times(100);
    begin();
    times(4);
    _exit(0);
  }
  wait(NULL);
  times(2);
  end();
  if (fork() == 0) {
    times(100);
    begin();
    times(60);
    _exit(0);
  }
  wait(NULL);
}

static void on_alarm(int signal) {
  (void)signal;
  begin();
}

static void by_handler(void) {
  signal(SIGALRM, on_alarm);
  times(100);
  raise(SIGALRM);
  times(9);
  end();
  times(100);
}

static double processor(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

NOINLINE void burns(double seconds) {
  for (double until = processor() + seconds; processor() < until;)
    for (int at = 0; at < 100000; at++) sum += at;
}

NOINLINE void wastes(double seconds) {
  for (double until = processor() + seconds; processor() < until;)
    for (int at = 0; at < 100000; at++) sum -= at;
}

// What the sampling clock sees: half a second of what is recorded beside as much that is not.
static void by_clock(void) {
  wastes(0.25);
  begin();
  burns(0.5);
  end();
  wastes(0.25);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "functions";
  if (!strcmp(how, "functions")) functions();
  if (!strcmp(how, "signal")) by_signal();
  if (!strcmp(how, "handles")) {
    signal(SIGUSR1, on_alarm);
    raise(SIGUSR1);
  }
  if (!strcmp(how, "sleeps")) for_a_while(argc > 2 ? 2000 : 1000);
  if (!strcmp(how, "threads")) threads();
  if (!strcmp(how, "fork")) forks();
  if (!strcmp(how, "handler")) by_handler();
  if (!strcmp(how, "clock")) by_clock();
  return 0;
}

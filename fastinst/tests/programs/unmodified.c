/* Functions as compilers make them, each of which counts its calls itself: what it prints at the end is the truth. */
#include <emmintrin.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HERE __attribute__((noinline, noclone))
enum { LEAF, BRANCH, SELECT, RECURSE, FIRST, SECOND, VECTOR, MANY, VARIED, JUMPS, LANDS, HANDLER, WORKER, LOOKS, LOW, PASSED, COUNT };
static const char *names[COUNT] = {"leaf", "branch", "select_one", "recurse", "first", "second", "vector", "many",
                                   "varied", "jumps", "lands", "handler", "worker", "looks", "low", "passed"};
static long counts[COUNT];
#define CALLED(which) __atomic_fetch_add(&counts[which], 1, __ATOMIC_RELAXED)

HERE int leaf(int a) { CALLED(LEAF); return a * 3 + 1; }
HERE int branch(int a) {
    CALLED(BRANCH);
    if (a % 3 == 0) return a / 3;
    if (a % 5 == 1) return a - 7;
    if (a < 0) return -a;
    return a + 1;
}
HERE int select_one(int a) {
    CALLED(SELECT);
    switch (a & 15) {
    case 0: return leaf(a);
    case 1: return a * 7;
    case 2: return branch(a) + 1;
    case 3: return a ^ 0x55;
    case 4: return a + leaf(2);
    case 5: return 11;
    case 6: return a << 3;
    case 7: return a % 13;
    default: return branch(a);
    }
}
/* No sum, of which compilers make a loop. */
HERE long recurse(int n) {
    CALLED(RECURSE);
    if (n < 2) return n;
    long a = recurse(n - 1), b = recurse(n - 2);
    return a > b ? a - b : b + 1;
}
HERE int second(int a, int b) { CALLED(SECOND); return a * b + 1; }
HERE int first(int a) { CALLED(FIRST); return second(a, a + 1); }
HERE __m128d vector(__m128d a, __m128d b, double c) {
    CALLED(VECTOR);
    return _mm_add_pd(_mm_mul_pd(a, b), _mm_set1_pd(c));
}
HERE long many(long a, long b, long c, long d, long e, long f, long g, long h) {
    CALLED(MANY);
    return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h;
}
HERE double varied(int count, ...) {
    CALLED(VARIED);
    va_list list;
    double sum = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++) sum += va_arg(list, double);
    va_end(list);
    return sum;
}
/* The caller may know which registers a static function leaves alone. */
static HERE long low(long a) { CALLED(LOW); return a ^ (a >> 3); }
HERE long looks(long a, long b, long c, long d) {
    CALLED(LOOKS);
    long r = low(a);
    return r + b * 3 + c * 5 + d * 7 + low(b) + a;
}
HERE int passed(int a) { CALLED(PASSED); return a ^ 7; }
/* Nothing but a jump, where compilers optimise. */
HERE int passes(int a) { return passed(a); }
static jmp_buf place;
HERE void jumps(int a) { CALLED(JUMPS); if (a % 2) longjmp(place, a); }
HERE int lands(int a) {
    CALLED(LANDS);
    int with = setjmp(place);
    if (with) return with;
    jumps(a);
    return -1;
}
static volatile long handled;
HERE void handler(int signal) { CALLED(HANDLER); handled += leaf(signal); }
HERE void *worker(void *start) {
    CALLED(WORKER);
    long sum = 0;
    for (int i = 0; i < 20000; i++) sum += select_one(i + (int)(long)start);
    return (void *)sum;
}

int main(int count, char **arguments) {
    int turns = count > 1 ? atoi(arguments[1]) : 2000;
    long sum = 0;
    double other = 0;
    signal(SIGUSR1, handler);
    for (int i = 0; i < turns; i++) {
        sum += select_one(i) + first(i) + lands(i) + many(i, 2, 3, 4, 5, 6, 7, i) + looks(i, i + 1, i + 2, i + 3) + passes(i);
        double pair[2];
        _mm_storeu_pd(pair, vector(_mm_set_pd(i, 2), _mm_set_pd(3, i), 0.5));
        other += pair[0] - pair[1] + varied(4, 1.0, 2.0, 3.0, (double)i);
        if (i % 100 == 0) raise(SIGUSR1);
    }
    sum += recurse(18);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit((int)(leaf(3) + recurse(5)) & 127);
    waitpid(child, &status, 0);
    printf("%ld %.3f %ld %d\n", sum, other, handled, WEXITSTATUS(status));
    for (int i = 0; i < COUNT; i++) printf("%s %ld\n", names[i], counts[i]);
    printf("passes %ld\n", counts[PASSED]);
    return 3;
}

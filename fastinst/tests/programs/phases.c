/* A program in phases, until it is told to end: ten calls between `opens` and `closes`, then forty
 * through another function. */
#include <signal.h>
#include <stdio.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile sig_atomic_t over;
static volatile unsigned long turns;

/* Several instructions at the beginning of each, of which one will do for a probe. */
NOINLINE unsigned work(unsigned n)
{
    volatile unsigned sum = 1;
    for (unsigned i = 0; i < n % 300; i++)
        sum = sum * 1664525u + (sum >> 3) + i;
    return sum;
}

NOINLINE unsigned opens(unsigned n)
{
    volatile unsigned more = n | 1;
    turns += 1;
    return more;
}

NOINLINE unsigned closes(unsigned n)
{
    volatile unsigned more = n | 2;
    return more + 3;
}

NOINLINE unsigned others(unsigned n)
{
    volatile unsigned next = n + 1;
    return work(n) + work(next);
}

NOINLINE unsigned phase(unsigned seed)
{
    seed = opens(seed);
    for (int i = 0; i < 10; i++)
        seed += work(seed);
    seed = closes(seed);
    for (int i = 0; i < 20; i++)
        seed += others(seed);
    return seed;
}

static void end(int signal)
{
    (void)signal;
    over = 1;
}

int main(void)
{
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    setvbuf(stdout, NULL, _IONBF, 0);
    puts("ready");
    unsigned seed = 1;
    while (!over)
        seed = phase(seed);
    printf("%lu turns\n", turns);
    return seed == 0;
}

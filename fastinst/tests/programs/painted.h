/* How much of a signal stack is written to below the frames of probed functions: the stack is
 * painted, and looked at afterwards. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define UNSEEN __attribute__((no_instrument_function))
/* What hooks may take of the stack, and what a probed function has below its frame's address. */
#ifndef HOOKS
#define HOOKS 256
#endif
#define OWN 64

static const char paint = 0x5a;
static const size_t large = 1 << 17;
/* The lowest frame of a probed function. */
static char *volatile deepest;

/* How far below it anything was written, while a signal came to the stack. */
static UNSEEN void look(char *stack, int signal, const char *what) {
    memset(stack, paint, large);
    deepest = stack + large;
    raise(signal);
    char *lowest = stack;
    while (*lowest == paint)
        lowest++;
    long depth = deepest - lowest;
    if (depth <= HOOKS + OWN)
        printf("%s: little\n", what);
    else
        printf("%s: %ld bytes\n", what, depth);
}

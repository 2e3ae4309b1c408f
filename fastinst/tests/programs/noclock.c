/* Forbids itself the time stamp counter in the middle of its work; as a library, before the program begins. */
#include <linux/prctl.h>
#include <stdio.h>
#include <sys/prctl.h>

#ifdef EARLY
__attribute__((constructor, no_instrument_function)) static void begin(void) {
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
        perror("prctl");
}
#else
static volatile int sink;

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

int main(void) {
    int sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += leaf(i);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
        perror("prctl");
    for (int i = 0; i < 1000; i++)
        sum += leaf(i);
    printf("%d\n", sum);
    return 5;
}
#endif

/* Has hooks of its own, and counts with them. */
#include <stdio.h>

static volatile int sink;
static long entered, left;

__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *site) {
    (void)function, (void)site;
    entered++;
}

__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *site) {
    (void)function, (void)site;
    left++;
}

__attribute__((noinline)) int leaf(int x) {
    sink = x;
    return x + 1;
}

int main(void) {
    for (int i = 0; i < 1000; i++)
        leaf(i);
    printf("%ld %ld\n", entered, left);
    return 0;
}

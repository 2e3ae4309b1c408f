/* The smallest program that does something: what is left is its start. */
#include <stdio.h>

int main(void) {
    puts("hello");
    return 0;
}

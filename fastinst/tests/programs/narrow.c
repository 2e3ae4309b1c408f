/* A 32-bit program that needs no library: it says that it is ready, and sleeps. */
static int call(int number, int a, const void *b, int c) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "0"(number), "b"(a), "c"(b), "d"(c) : "memory");
    return result;
}

void _start(void) {
    call(4, 1, "ready\n", 6); /* write */
    for (;;) call(29, 0, 0, 0); /* pause */
}

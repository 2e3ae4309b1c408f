/* A program without a C library, for a processor of 32 or of 64 bits. */
static long call(long number, long first, const void *second, long third) {
    long result;
#ifdef __x86_64__
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
#else
    __asm__ volatile("int $0x80" : "=a"(result) : "0"(number), "b"(first), "c"(second), "d"(third) : "memory");
#endif
    return result;
}

void _start(void) {
#ifdef __x86_64__
    enum { WRITE = 1, EXIT = 60 };
#else
    enum { WRITE = 4, EXIT = 1 };
#endif
    call(WRITE, 1, "bare\n", 5);
    call(EXIT, 3, 0, 0);
}

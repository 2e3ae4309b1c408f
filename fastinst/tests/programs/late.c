/* A library with 64 bytes of thread data that have to lie at a fixed distance of each thread. */
__thread __attribute__((tls_model("initial-exec"))) char late[64];

int touch(void)
{
    return late[0]++;
}

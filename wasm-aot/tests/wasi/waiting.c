// Waiting for input, for room, and for time.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <unistd.h>

int main(void) {
    struct pollfd both[2] = {{0, POLLIN, 0}, {1, POLLOUT, 0}};
    printf("output %d", poll(&both[1], 1, 1000));
    printf(" ready %d\n", (both[1].revents & POLLOUT) != 0);
    // Somebody may wait for this line before he gives input, or loses patience.
    fflush(stdout);
    printf("input %d", poll(both, 1, 10000));
    printf(" ready %d\n", (both[0].revents & POLLIN) != 0);
    int available = -1;
    ioctl(0, FIONREAD, &available);
    printf("available %d\n", available);
    char bytes[64] = {0};
    printf("read %d <%s>\n", (int)read(0, bytes, sizeof bytes - 1), bytes);

    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(0, &readable);
    struct timeval span = {10, 0};
    printf("select %d", select(1, &readable, NULL, NULL, &span));
    printf(" %d\n", FD_ISSET(0, &readable) != 0);
    printf("end %d\n", (int)read(0, bytes, sizeof bytes));

    struct pollfd closed = {77, POLLIN, 0};
    printf("closed %d", poll(&closed, 1, 1000));
    printf(" invalid %d\n", (closed.revents & POLLNVAL) != 0);
    printf("nothing %d\n", poll(NULL, 0, 5));
    return 0;
}

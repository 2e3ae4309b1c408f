// There are no sockets, and no signals to send.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
    char byte = 'x';
    printf("shutdown %d %s\n", shutdown(1, SHUT_RD), strerror(errno));
    printf("send %d %s\n", (int)send(1, &byte, 1, 0), strerror(errno));
    printf("recv %d %s\n", (int)recv(0, &byte, 1, 0), strerror(errno));
    printf("closed %d %s\n", shutdown(77, SHUT_RD), strerror(errno));
    return 0;
}

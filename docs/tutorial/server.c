/* The server of the tutorial: it keeps values by keys, for clients of a socket in the file system.

     server serve SOCKET             answers "PUT key value" and "GET key", a line each, a thread for each client
     server load SOCKET REQUESTS     is four clients, until so many requests were answered; 0 for ever */
#define _GNU_SOURCE
#include "store.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CLIENTS = 4 };

static int answer(const char *request, char *reply) {
    unsigned key;
    int value;
    if (sscanf(request, "PUT %u %d", &key, &value) == 2) {
        put(key, value);
        return sprintf(reply, "done\n");
    }
    if (sscanf(request, "GET %u", &key) == 1) return sprintf(reply, "%d\n", get(key));
    return sprintf(reply, "unknown request\n");
}

static void *serve_client(void *socket) {
    FILE *in = fdopen((int)(long)socket, "r");
    char request[100], reply[100];
    while (fgets(request, sizeof request, in)) {
        int length = answer(request, reply);
        if (send((int)(long)socket, reply, length, MSG_NOSIGNAL) != length) break;
    }
    fclose(in);
    return NULL;
}

static int opened(const char *path, int (*how)(int, const struct sockaddr *, socklen_t)) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    /* The server may be a moment behind its clients. */
    for (int tries = 0; tries < 100; tries++, usleep(50000)) {
        if (how(made, (struct sockaddr *)&address, sizeof address) == 0) return made;
        if (how != connect) break;
    }
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
}

static void serve(const char *path) {
    unlink(path);
    int listening = opened(path, bind);
    listen(listening, CLIENTS);
    for (;;) {
        long client = accept(listening, NULL, NULL);
        pthread_t thread;
        if (client >= 0 && pthread_create(&thread, NULL, serve_client, (void *)client) == 0) pthread_detach(thread);
    }
}

static const char *target;
static long wanted;
static atomic_long answered;

static void *load_client(void *seed) {
    unsigned state = (unsigned)(long)seed;
    FILE *server = fdopen(opened(target, connect), "r+");
    char reply[100];
    while (!wanted || atomic_fetch_add(&answered, 1) < wanted) {
        unsigned key = (state = state * 1103515245 + 12345) >> 12;
        if (state >> 31) fprintf(server, "PUT %u %d\n", key, (int)(key % 1000));
        else fprintf(server, "GET %u\n", key);
        fflush(server);
        if (!fgets(reply, sizeof reply, server)) break;
    }
    fclose(server);
    return NULL;
}

int main(int count, char **words) {
    if (count == 3 && !strcmp(words[1], "serve")) serve(words[2]);
    if (count != 4 || strcmp(words[1], "load")) {
        fprintf(stderr, "usage: server serve SOCKET | server load SOCKET REQUESTS\n");
        return 2;
    }
    target = words[2];
    wanted = atol(words[3]);
    pthread_t clients[CLIENTS];
    for (long i = 0; i < CLIENTS; i++) pthread_create(&clients[i], NULL, load_client, (void *)(i + 1));
    for (int i = 0; i < CLIENTS; i++) pthread_join(clients[i], NULL);
    return 0;
}

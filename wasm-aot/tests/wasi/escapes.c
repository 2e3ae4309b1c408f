// Attempts to leave the given directory. There is a file "secret" beside it, and links that lead out within it.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int out;

static void try(const char *what, const char *path, long long result) {
    if (result >= 0) {
        printf("%s %s: let through\n", what, path);
        out++;
    } else if (errno != EPERM && errno != ENOTCAPABLE && errno != ENOENT && errno != ELOOP) {
        printf("%s %s: %s\n", what, path, strerror(errno));
    }
}

int main(void) {
    const char *ways[] = {"../secret",     "../../etc/passwd", "dir/../../secret", "/../secret",  "up/secret",     "to_secret",
                          "absolute",      "top/etc/passwd",   "dir/up/../secret", "./../secret", "proc/self/cwd/secret",
                          "twice/secret",  "dir//..//../secret"};
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *way = ways[i];
        struct stat stat_;
        char bytes[16];
        try("open", way, open(way, O_RDONLY));
        try("write", way, open(way, O_RDWR));
        try("create", way, open(way, O_RDWR | O_CREAT, 0666));
        try("truncate", way, open(way, O_WRONLY | O_TRUNC));
        try("stat", way, stat(way, &stat_));
        try("access", way, access(way, F_OK));
        if (strcmp(way, "to_secret") && strcmp(way, "absolute")) {
            try("lstat", way, lstat(way, &stat_));
            try("readlink", way, readlink(way, bytes, sizeof bytes));
            try("unlink", way, unlink(way));
            try("rename", way, rename(way, "stolen"));
            try("link", way, link(way, "linked"));
        }
    }
    try("opendir", "up", opendir("up") ? 0 : -1);
    try("opendir", "top", opendir("top") ? 0 : -1);
    try("mkdir", "../made", mkdir("../made", 0777));
    try("mkdir", "up/made", mkdir("up/made", 0777));
    try("rename", "file to ../moved", rename("file", "../moved"));
    try("rename", "file to up/moved", rename("file", "up/moved"));
    try("link", "file to ../moved", link("file", "../moved"));
    try("symlink", "/etc to way", symlink("/etc", "way"));
    int dir = open("dir", O_RDONLY | O_DIRECTORY);
    try("openat", "../file", openat(dir, "../file", O_RDONLY));
    try("openat", "up/file", openat(dir, "up/file", O_RDONLY));
    printf("%d ways out\n", out);
    FILE *file = fopen("file", "r");
    char line[32];
    printf("inside: %s", fgets(line, sizeof line, file));
    return out != 0;
}

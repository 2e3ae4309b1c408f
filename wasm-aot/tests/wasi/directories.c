// Directories: made, listed, walked, linked, renamed, removed.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void say(const char *what, int result) {
    // Libraries word this one differently.
    const char *why = errno == ELOOP ? "too many links" : strerror(errno);
    printf("%s: %s\n", what, result < 0 ? why : "ok");
}

static void touch(const char *name, int size) {
    int fd = open(name, O_CREAT | O_WRONLY, 0666);
    for (int i = 0; i < size; i++) write(fd, "x", 1);
    say(name, close(fd));
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *kind(mode_t mode) {
    return S_ISDIR(mode) ? "dir" : S_ISREG(mode) ? "file" : S_ISLNK(mode) ? "link" : "other";
}

static void list(const char *path, int depth) {
    DIR *dir = opendir(path);
    if (!dir) {
        say(path, -1);
        return;
    }
    char *names[1024];
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) && count < 1024;) {
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) names[count++] = strdup(entry->d_name);
    }
    closedir(dir);
    qsort(names, count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) {
        char child[512];
        snprintf(child, sizeof child, "%s/%s", path, names[i]);
        struct stat stat;
        lstat(child, &stat);
        int sized = S_ISREG(stat.st_mode);
        printf("%*s%s %s %d\n", depth * 2, "", names[i], kind(stat.st_mode), sized ? (int)stat.st_size : 0);
        if (S_ISDIR(stat.st_mode)) list(child, depth + 1);
        free(names[i]);
    }
}

static void made(void) {
    say("mkdir", mkdir("tree", 0777));
    say("again", mkdir("tree", 0777));
    say("below", mkdir("tree/sub", 0777));
    say("too deep", mkdir("tree/no/where", 0777));
    touch("tree/one", 1);
    touch("tree/two", 22);
    touch("tree/sub/three", 333);
    say("symlink", symlink("../one", "tree/sub/to_one"));
    say("symlink of a directory", symlink("sub", "tree/to_sub"));
    say("dangling", symlink("nothing", "tree/dangling"));
    say("link", link("tree/two", "tree/sub/also_two"));
    list("tree", 1);
}

static void seen(void) {
    struct stat one, two;
    say("stat through links", stat("tree/to_sub/to_one", &one));
    stat("tree/one", &two);
    printf("the same %d, links %d\n", one.st_ino == two.st_ino && one.st_dev == two.st_dev, (int)two.st_nlink);
    stat("tree/two", &two);
    printf("links %d\n", (int)two.st_nlink);
    say("stat of a dangling link", stat("tree/dangling", &one));
    say("file as directory", stat("tree/one/x", &one));
    char target[64] = {0};
    printf("readlink %d %s\n", (int)readlink("tree/sub/to_one", target, sizeof target), target);
    memset(target, 0, sizeof target);
    printf("cut off %d %s\n", (int)readlink("tree/sub/to_one", target, 3), target);
    say("readlink of a file", readlink("tree/one", target, sizeof target));
    say("access", access("tree/one", R_OK));
    say("no access", access("tree/none", F_OK));
}

static void timed(void) {
    struct timespec times[2] = {{1000000000, 123456789}, {1234567890, 987654321}};
    say("utimensat", utimensat(AT_FDCWD, "tree/one", times, 0));
    struct stat stat_;
    stat("tree/one", &stat_);
    printf("%lld.%09ld %lld.%09ld\n", (long long)stat_.st_atim.tv_sec, stat_.st_atim.tv_nsec, (long long)stat_.st_mtim.tv_sec,
           stat_.st_mtim.tv_nsec);
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = 7;
    say("of the link itself", utimensat(AT_FDCWD, "tree/dangling", times, AT_SYMLINK_NOFOLLOW));
    lstat("tree/dangling", &stat_);
    printf("%lld\n", (long long)stat_.st_mtim.tv_sec);
}

static void relative(void) {
    int dir = open("tree/sub", O_RDONLY | O_DIRECTORY);
    say("open a directory", dir);
    int file = openat(dir, "new", O_CREAT | O_RDWR | O_EXCL, 0666);
    say("openat", file);
    say("write", (int)write(file, "abc", 3));
    say("openat again", openat(dir, "new", O_CREAT | O_RDWR | O_EXCL, 0666));
    struct stat stat;
    say("fstatat", fstatat(dir, "new", &stat, 0));
    printf("%d\n", (int)stat.st_size);
    say("mkdirat", mkdirat(dir, "deeper", 0777));
    say("renameat", renameat(dir, "new", dir, "deeper/old"));
    say("unlinkat", unlinkat(dir, "deeper", 0));
    say("unlinkat full", unlinkat(dir, "deeper", AT_REMOVEDIR));
    close(file);
    close(dir);
    say("write a directory", open("tree", O_WRONLY));
    say("a file as a directory", open("tree/one", O_RDONLY | O_DIRECTORY));
    say("a link unfollowed", open("tree/sub/to_one", O_RDONLY | O_NOFOLLOW));
}

static void renamed(void) {
    say("rename over a file", rename("tree/two", "tree/one"));
    say("rename over a full directory", rename("tree/sub/deeper", "tree"));
    say("file over directory", rename("tree/one", "tree/sub"));
    say("directory into itself", rename("tree", "tree/sub/tree"));
    say("directory", rename("tree/sub", "tree/renamed"));
    list("tree", 1);
}

static void many(void) {
    mkdir("many", 0777);
    char name[32];
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "many/%d", i);
        close(open(name, O_CREAT | O_WRONLY, 0666));
    }
    DIR *dir = opendir("many");
    int count = 0, sum = 0;
    long middle = 0;
    for (struct dirent *entry; (entry = readdir(dir)); count++) {
        sum += atoi(entry->d_name);
        if (count == 250) middle = telldir(dir);
    }
    printf("%d entries, sum %d\n", count, sum);
    seekdir(dir, middle);
    int rest = 0;
    while (readdir(dir)) rest++;
    rewinddir(dir);
    int again = 0;
    while (readdir(dir)) again++;
    printf("rest %d, again %d\n", rest, again);
    rewinddir(dir);
    int removed = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        snprintf(name, sizeof name, "many/%s", entry->d_name);
        removed += unlink(name) == 0;
    }
    closedir(dir);
    printf("removed %d\n", removed);
    say("rmdir", rmdir("many"));
}

static void removed(void) {
    say("unlink a directory", unlink("tree/renamed"));
    say("rmdir a file", rmdir("tree/one"));
    say("rmdir full", rmdir("tree"));
    const char *names[] = {"tree/renamed/deeper/old", "tree/renamed/three", "tree/renamed/to_one", "tree/renamed/also_two",
                           "tree/one", "tree/to_sub", "tree/dangling"};
    for (int i = 0; i < 7; i++) say(names[i], unlink(names[i]));
    say("deeper", rmdir("tree/renamed/deeper"));
    say("sub", rmdir("tree/renamed/"));
    say("tree", rmdir("tree"));
    list(".", 0);
}

int main(void) {
    made();
    seen();
    timed();
    relative();
    renamed();
    many();
    removed();
    return 0;
}

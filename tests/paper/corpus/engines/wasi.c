/* As much of WASI preview 1 as the programs of the experiment use, for modules that wasm2c has made into C: arguments, clocks, chance, and
   writing to the first descriptors. There are no files. MODULE is the header that wasm2c wrote. */
#include MODULE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, BADF = 8, INVAL = 28, NOSYS = 52 };

struct Z_wasi_snapshot_preview1_instance_t {
    Z_program_instance_t *program;
    int argc;
    char **argv;
};
typedef struct Z_wasi_snapshot_preview1_instance_t world;

#define CALL(name, ...) Z_wasi_snapshot_preview1Z_##name(world *w, ##__VA_ARGS__)
/* A call that nobody makes, or that finds nothing. */
#define ANSWER(name, errno, ...) \
    u32 CALL(name, ##__VA_ARGS__) { return errno; }

static void *at(world *w, u32 place, u32 length) {
    wasm_rt_memory_t *memory = Z_programZ_memory(w->program);
    if ((u64)place + length > memory->size) abort();
    return memory->data + place;
}
static void put32(world *w, u32 place, u32 value) { memcpy(at(w, place, 4), &value, 4); }
static void put64(world *w, u32 place, u64 value) { memcpy(at(w, place, 8), &value, 8); }
static u32 get32(world *w, u32 place) {
    u32 value;
    memcpy(&value, at(w, place, 4), 4);
    return value;
}

u32 CALL(args_sizes_get, u32 count, u32 size) {
    u32 bytes = 0;
    for (int i = 0; i < w->argc; i++) bytes += strlen(w->argv[i]) + 1;
    put32(w, count, w->argc), put32(w, size, bytes);
    return SUCCESS;
}
u32 CALL(args_get, u32 pointers, u32 bytes) {
    for (int i = 0; i < w->argc; i++) {
        u32 length = strlen(w->argv[i]) + 1;
        put32(w, pointers + 4 * i, bytes);
        memcpy(at(w, bytes, length), w->argv[i], length);
        bytes += length;
    }
    return SUCCESS;
}
u32 CALL(environ_sizes_get, u32 count, u32 size) {
    put32(w, count, 0), put32(w, size, 0);
    return SUCCESS;
}
u32 CALL(fd_write, u32 fd, u32 pieces, u32 count, u32 done) {
    u32 written = 0;
    if (fd != 1 && fd != 2) return BADF;
    for (u32 i = 0; i < count; i++) {
        u32 length = get32(w, pieces + 8 * i + 4);
        written += fwrite(at(w, get32(w, pieces + 8 * i), length), 1, length, fd == 1 ? stdout : stderr);
    }
    put32(w, done, written);
    return SUCCESS;
}
u32 CALL(fd_fdstat_get, u32 fd, u32 place) {
    if (fd > 2) return BADF;
    memset(at(w, place, 24), 0, 24);
    *(char *)at(w, place, 1) = 2; /* a character device, which may be read and written */
    put64(w, place + 8, 1 << 1 | 1 << 6);
    return SUCCESS;
}
u32 CALL(clock_time_get, u32 clock, u64 precision, u32 place) {
    struct timespec now;
    if (clock_gettime(clock == 0 ? CLOCK_REALTIME : clock == 1 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &now)) return INVAL;
    put64(w, place, now.tv_sec * 1000000000ull + now.tv_nsec);
    return SUCCESS;
}
u32 CALL(clock_res_get, u32 clock, u32 place) {
    put64(w, place, 1);
    return SUCCESS;
}
u32 CALL(random_get, u32 place, u32 length) { return getrandom(at(w, place, length), length, 0) == length ? SUCCESS : INVAL; }
void CALL(proc_exit, u32 code) { exit(code); }

ANSWER(environ_get, SUCCESS, u32 pointers, u32 bytes)
ANSWER(sched_yield, SUCCESS)
ANSWER(fd_close, SUCCESS, u32 fd)
ANSWER(fd_prestat_get, BADF, u32 fd, u32 place)
ANSWER(fd_prestat_dir_name, BADF, u32 fd, u32 name, u32 length)
ANSWER(fd_seek, BADF, u32 fd, u64 offset, u32 whence, u32 place)
ANSWER(fd_read, BADF, u32 fd, u32 pieces, u32 count, u32 done)
ANSWER(fd_sync, NOSYS, u32 fd)
ANSWER(fd_datasync, NOSYS, u32 fd)
ANSWER(fd_tell, NOSYS, u32 fd, u32 place)
ANSWER(fd_fdstat_set_flags, NOSYS, u32 fd, u32 flags)
ANSWER(fd_filestat_get, BADF, u32 fd, u32 place)
ANSWER(fd_filestat_set_size, NOSYS, u32 fd, u64 size)
ANSWER(fd_filestat_set_times, NOSYS, u32 fd, u64 accessed, u64 changed, u32 flags)
ANSWER(fd_fdstat_set_rights, NOSYS, u32 fd, u64 rights, u64 inherited)
ANSWER(fd_advise, NOSYS, u32 fd, u64 offset, u64 length, u32 advice)
ANSWER(fd_allocate, NOSYS, u32 fd, u64 offset, u64 length)
ANSWER(fd_renumber, NOSYS, u32 from, u32 to)
ANSWER(fd_pread, NOSYS, u32 fd, u32 pieces, u32 count, u64 offset, u32 done)
ANSWER(fd_pwrite, NOSYS, u32 fd, u32 pieces, u32 count, u64 offset, u32 done)
ANSWER(fd_readdir, NOSYS, u32 fd, u32 place, u32 length, u64 cookie, u32 done)
ANSWER(path_create_directory, NOSYS, u32 fd, u32 path, u32 length)
ANSWER(path_filestat_get, NOSYS, u32 fd, u32 flags, u32 path, u32 length, u32 place)
ANSWER(path_filestat_set_times, NOSYS, u32 fd, u32 flags, u32 path, u32 length, u64 accessed, u64 changed, u32 times)
ANSWER(path_link, NOSYS, u32 from, u32 flags, u32 path, u32 length, u32 to, u32 name, u32 named)
ANSWER(path_open, NOSYS, u32 fd, u32 flags, u32 path, u32 length, u32 how, u64 rights, u64 inherited, u32 more, u32 opened)
ANSWER(path_readlink, NOSYS, u32 fd, u32 path, u32 length, u32 place, u32 room, u32 done)
ANSWER(path_remove_directory, NOSYS, u32 fd, u32 path, u32 length)
ANSWER(path_rename, NOSYS, u32 from, u32 path, u32 length, u32 to, u32 name, u32 named)
ANSWER(path_symlink, NOSYS, u32 path, u32 length, u32 fd, u32 name, u32 named)
ANSWER(path_unlink_file, NOSYS, u32 fd, u32 path, u32 length)
ANSWER(proc_raise, NOSYS, u32 signal)
ANSWER(sock_accept, NOSYS, u32 fd, u32 flags, u32 place)
ANSWER(sock_recv, NOSYS, u32 fd, u32 pieces, u32 count, u32 flags, u32 done, u32 flagged)
ANSWER(sock_send, NOSYS, u32 fd, u32 pieces, u32 count, u32 flags, u32 done)
ANSWER(sock_shutdown, NOSYS, u32 fd, u32 how)
ANSWER(poll_oneoff, NOSYS, u32 subscriptions, u32 events, u32 count, u32 done)

int main(int argc, char **argv) {
    static Z_program_instance_t program;
    world w = {&program, argc, argv};
    wasm_rt_init();
    Z_program_init_module();
    Z_program_instantiate(&program, &w);
    Z_programZ__start(&program);
    return 0;
}

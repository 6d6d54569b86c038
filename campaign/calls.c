/* System calls that fail: the n-th of those that read, or that write, files in a folder.

   Loaded before everything else (LD_PRELOAD), so that it also replaces calls of C and C++ code: Arrow, HDF5,
   SQLite, DuckDB, NumPy. Nothing happens until `labelfold_arm` is called. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* As in disk.py. The kinds from SHORT on are: a call that succeeds in part, the end of the process, and changes of
   the file by another process. */
enum { NOTHING, FAIL, FAIL_ALWAYS, SHORT, KILL, SHRINK, GROW, REPLACE };

static char folder[PATH_MAX], other[PATH_MAX];
static int writes, kind, number, with, calls, report = -1;

/* From now on the call of this number fails. Each counted call is written to the report, if there is one. */
void labelfold_arm(const char *where, int what, int how, int when, int error, const char *aside, int told) {
    strncpy(folder, where, PATH_MAX - 1);
    strncpy(other, aside, PATH_MAX - 1);
    writes = what, kind = how, number = when, with = error, calls = 0, report = told;
}

static void change(const char *path) {
    struct stat now;
    char part[4096];
    if (stat(path, &now)) return;
    if (kind == SHRINK && truncate(path, now.st_size / 2)) return;
    if (kind == REPLACE && rename(other, path)) return;
    if (kind != GROW) return;
    int in = open(path, O_RDONLY), out = open(path, O_WRONLY | O_APPEND);
    ssize_t (*real)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
    ssize_t (*put)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    ssize_t got = in < 0 ? 0 : real(in, part, sizeof part);
    if (got > 0 && out >= 0) put(out, part, got);
    close(in), close(out);
}

/* Count a call; return the number of its bytes to transfer, or -1 if it fails. */
static ssize_t wanted(int handle, size_t count, int writing, const char *name) {
    char link[64], path[PATH_MAX];
    if (!folder[0] || writing != writes || handle < 0) return count;
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return count;
    path[length] = 0;
    if (strncmp(path, folder, strlen(folder))) return count;
    int here = __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
    if (report >= 0) {
        char line[PATH_MAX + 64];
        ssize_t (*put)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
        int size = snprintf(line, sizeof line, "%s %s\n", name, path + strlen(folder) + 1);
        put(report, line, size);
    }
    if ((kind == FAIL && here == number) || (kind == FAIL_ALWAYS && here >= number)) {
        errno = with;
        return -1;
    }
    if (kind == SHORT && here >= number) return count / 2 ? count / 2 : count;
    if (kind == KILL && here == number) return count / 2;
    if (kind >= SHRINK && here == number) change(path);
    return count;
}

static void killed(void) {
    if (kind == KILL && calls > number && folder[0]) kill(getpid(), SIGKILL);
}

#define MOVES(name, of, writing, extra, ...)                                  \
    ssize_t name(int handle, of buffer, size_t count extra) {                 \
        static ssize_t (*real)(int, of, size_t extra);                        \
        if (!real) real = dlsym(RTLD_NEXT, #name);                            \
        ssize_t some = wanted(handle, count, writing, #name);                 \
        if (some < 0) return -1;                                              \
        ssize_t done = real(handle, buffer, some __VA_ARGS__);                \
        killed();                                                             \
        return done;                                                          \
    }
#define COMMA ,
MOVES(read, void *, 0, )
MOVES(pread, void *, 0, COMMA off_t place, , place)
MOVES(pread64, void *, 0, COMMA off64_t place, , place)
MOVES(__read_chk, void *, 0, COMMA size_t size, , size)
MOVES(__pread_chk, void *, 0, COMMA off_t place COMMA size_t size, , place, size)
MOVES(__pread64_chk, void *, 0, COMMA off64_t place COMMA size_t size, , place, size)
MOVES(write, const void *, 1, )
MOVES(pwrite, const void *, 1, COMMA off_t place, , place)
MOVES(pwrite64, const void *, 1, COMMA off64_t place, , place)

#define CHANGES(name, extra, ...)                                             \
    int name(int handle extra) {                                              \
        static int (*real)(int extra);                                        \
        if (!real) real = dlsym(RTLD_NEXT, #name);                            \
        if (wanted(handle, 2, 1, #name) < 0) return -1;                       \
        killed();                                                             \
        return real(handle __VA_ARGS__);                                      \
    }
CHANGES(fsync, )
CHANGES(fdatasync, )
CHANGES(ftruncate, COMMA off_t size, , size)
CHANGES(ftruncate64, COMMA off64_t size, , size)

size_t fread(void *buffer, size_t size, size_t many, FILE *stream) {
    static size_t (*real)(void *, size_t, size_t, FILE *);
    if (!real) real = dlsym(RTLD_NEXT, "fread");
    if (wanted(fileno(stream), 2, 0, "fread") >= 0) return real(buffer, size, many, stream);
    stream->_flags |= _IO_ERR_SEEN;
    return 0;
}

/* Fails the n-th call of libc that changes something below a folder, whoever makes it: Python, Rust or Arrow. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { KILLED, TORN, FULL, BROKEN };
static int nth, mode, count;
static char under[PATH_MAX];

void nth_arm(int number, int how, const char *folder) {
    nth = number, mode = how, count = 0;
    snprintf(under, sizeof under, "%s", folder);
}

int nth_count(void) { return count; }

static int is_below(const char *path) { return *under && !strncmp(path, under, strlen(under)); }

static int is_open_below(int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return is_below(path);
}

/* Returns whether this call fails; where the process is to be killed, it is. */
static int fails(int concerns) {
    if (!concerns || __sync_add_and_fetch(&count, 1) != nth) return 0;
    if (mode == KILLED) kill(getpid(), SIGKILL);
    errno = mode == BROKEN ? EIO : ENOSPC;
    return 1;
}

#define REAL(name, type, ...) type (*real)(__VA_ARGS__) = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int descriptor, const void *bytes, size_t size) {
    REAL("write", ssize_t, int, const void *, size_t);
    if (!fails(is_open_below(descriptor))) return real(descriptor, bytes, size);
    if (mode == TORN) {
        real(descriptor, bytes, size / 2);
        kill(getpid(), SIGKILL);
    }
    return -1;
}

int rename(const char *from, const char *to) {
    REAL("rename", int, const char *, const char *);
    return fails(is_below(to)) ? -1 : real(from, to);
}

int mkdir(const char *path, mode_t bits) {
    REAL("mkdir", int, const char *, mode_t);
    return fails(is_below(path)) ? -1 : real(path, bits);
}

int fsync(int descriptor) {
    REAL("fsync", int, int);
    return fails(is_open_below(descriptor)) ? -1 : real(descriptor);
}

int ftruncate(int descriptor, off_t size) {
    REAL("ftruncate", int, int, off_t);
    return fails(is_open_below(descriptor)) ? -1 : real(descriptor, size);
}

int ftruncate64(int descriptor, off64_t size) {
    REAL("ftruncate64", int, int, off64_t);
    return fails(is_open_below(descriptor)) ? -1 : real(descriptor, size);
}

int truncate64(const char *path, off64_t size) {
    REAL("truncate64", int, const char *, off64_t);
    return fails(is_below(path)) ? -1 : real(path, size);
}

/* Makes the disk fail for one process: preloaded, it reads from the file that WRIT_DISK_FAULTS names what is wrong and with which files.
 *
 *   full PART        no room for what is written to a file whose path contains PART
 *   read-only PART   nothing can be written to it
 *   write PART       writing fails
 *   flush PART       writing succeeds and flushing fails
 *   flush-dir PART   flushing a directory fails whose path ends with PART
 *
 * Anything else, and nothing at all, is wrong with nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int error_of(int fd, int flushing) {
    const char *control = getenv("WRIT_DISK_FAULTS");
    char text[512], kind[32], part[256], link[64], path[4096];
    if (control == NULL) return 0;
    int file = open(control, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    if (n <= 0) return 0;
    text[n] = 0;
    if (sscanf(text, "%31s %255s", kind, part) != 2) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    if (strcmp(kind, "flush-dir") == 0) {
        struct stat is;
        size_t whole = strlen(path), end = strlen(part);
        if (!flushing || fstat(fd, &is) != 0 || !S_ISDIR(is.st_mode)) return 0;
        return whole >= end && strcmp(path + whole - end, part) == 0 ? EIO : 0;
    }
    if (strstr(path, part) == NULL) return 0;
    if (strcmp(kind, "full") == 0) return flushing ? 0 : ENOSPC;
    if (strcmp(kind, "read-only") == 0) return flushing ? 0 : EROFS;
    if (strcmp(kind, "write") == 0) return flushing ? 0 : EIO;
    if (strcmp(kind, "flush") == 0) return flushing ? EIO : 0;
    return 0;
}

#define FAIL(fd, flushing)                     \
    do {                                       \
        int error = error_of((fd), (flushing)); \
        if (error != 0) {                      \
            errno = error;                     \
            return -1;                         \
        }                                      \
    } while (0)

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t n) {
    FAIL(fd, 0);
    return NEXT(write)(fd, bytes, n);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) {
    FAIL(fd, 0);
    return NEXT(pwrite)(fd, bytes, n, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) {
    FAIL(fd, 0);
    return NEXT(pwrite64)(fd, bytes, n, at);
}

int ftruncate(int fd, off_t length) {
    FAIL(fd, 0);
    return NEXT(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length) {
    FAIL(fd, 0);
    return NEXT(ftruncate64)(fd, length);
}

int fsync(int fd) {
    FAIL(fd, 1);
    return NEXT(fsync)(fd);
}

int fdatasync(int fd) {
    FAIL(fd, 1);
    return NEXT(fdatasync)(fd);
}

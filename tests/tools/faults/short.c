/* Writes to files that take only a part of what they are given, as POSIX allows, for programs that load this before libc
   (LD_PRELOAD): every other write to a regular file takes half. What is not taken must be written again by the program. */

#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int calls;

static size_t part(int file, size_t size)
{
    struct stat what;
    if (size < 2 || fstat(file, &what) || !S_ISREG(what.st_mode) || atomic_fetch_add(&calls, 1) % 2)
        return size;
    return size / 2;
}

ssize_t write(int file, const void *content, size_t size)
{
    return syscall(SYS_write, file, content, part(file, size));
}

ssize_t pwrite(int file, const void *content, size_t size, off_t place)
{
    return syscall(SYS_pwrite64, file, content, part(file, size), place);
}

ssize_t pwrite64(int file, const void *content, size_t size, off64_t place)
{
    return syscall(SYS_pwrite64, file, content, part(file, size), place);
}

ssize_t writev(int file, const struct iovec *parts, int count)
{
    if (count > 0 && part(file, 2) == 1) /* the first part alone: less than all, if there are several */
        count = 1;
    return syscall(SYS_writev, file, parts, count);
}

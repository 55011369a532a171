/* status_page.c - see status_page.h. */
#include "base/status_page.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

size_t
status_page_bytes(int rank_count)
{
    return (size_t)rank_count * RANK_STATUS_STRIDE + JOB_OPTIONS_BYTES;
}

/* Of another user, who could write what ranks believe. By the system call: fstat would bind the shim to glibc 2.33. An
 * old kernel has none, and is trusted; root may look at any job. */
static bool
is_foreign(int fd)
{
    struct statx file;
    return geteuid() != 0 && syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_UID, &file) == 0 &&
           file.stx_uid != geteuid();
}

void *
status_page_map(const char *dir, int rank_count, bool create)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", dir, DDPRUN_STATUS_FILE) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return NULL;
    }

    int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
    if (fd < 0)
        return NULL;

    size_t bytes = status_page_bytes(rank_count);
    void *page = MAP_FAILED;
    /* Not a sparse file: where there is no room for it, a rank would end with SIGBUS in the middle of its work. */
    int full = create ? posix_fallocate(fd, 0, (off_t)bytes) : 0;
    if (full != 0) {
        errno = full;
        goto close_file;
    }
    off_t end = lseek(fd, 0, SEEK_END);
    if (end < 0)
        goto close_file;
    if ((size_t)end < bytes || is_foreign(fd)) {
        errno = (size_t)end < bytes ? EINVAL : EPERM;
        goto close_file;
    }
    page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

close_file:
    close(fd);
    return page == MAP_FAILED ? NULL : page;
}

void
status_page_unmap(void *page, int rank_count)
{
    munmap(page, status_page_bytes(rank_count));
}

struct rank_status *
status_page_rank(void *page, int local_rank)
{
    return (struct rank_status *)((char *)page + (size_t)local_rank * RANK_STATUS_STRIDE);
}

/*
 * run.c - see run.h.
 */
#include "tools/scout/format/run.h"

#include "tools/common/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

bool
scout_run_save(const char *path, const struct scout_run_settings *settings)
{
    int fd = open_direct(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    bool ok = direct_write(fd, settings, sizeof(*settings), -1);
    return close(fd) == 0 && ok;
}

bool
scout_run_load(const char *path, struct scout_run_settings *settings)
{
    int fd = open_direct(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool ok = direct_read(fd, settings, sizeof(*settings), -1);
    close(fd);
    if (ok && settings->version != SCOUT_RUN_VERSION)
        errno = EINVAL;
    if (!ok || settings->version != SCOUT_RUN_VERSION)
        return false;
    settings->log[sizeof(settings->log) - 1] = settings->progress[sizeof(settings->progress) - 1] = '\0';
    return true;
}

struct scout_progress *
scout_progress_map(const char *path, bool create)
{
    int fd = open_direct(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0), 0600);
    if (fd < 0)
        return NULL;
    void *page = MAP_FAILED;
    if (!create || ftruncate(fd, sizeof(struct scout_progress)) == 0)
        page = mmap(NULL, sizeof(struct scout_progress), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return page != MAP_FAILED ? page : NULL;
}

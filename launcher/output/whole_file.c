/*
 * whole_file.c - see whole_file.h.
 */
#include "launcher/output/whole_file.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool
whole_file_check(const char *path, const char *option, struct error *error)
{
    if (path == NULL)
        return true;
    struct stat file;
    if (stat(path, &file) == 0 && S_ISDIR(file.st_mode))
        return error_set(error, DDPRUN_EXIT_USAGE, "%s, in %s, is a folder; name a file", path, option);
    char *copy = xstrdup(path);
    const char *folder = dirname(copy);
    bool ok = access(folder, W_OK | X_OK) == 0 ||
              error_set(error, DDPRUN_EXIT_USAGE, "cannot write to %s, in %s: %s; name another file", folder, option,
                        strerror(errno));
    free(copy);
    return ok;
}

/* False with errno: not all of it is in the file. */
static bool
write_all(int fd, const char *bytes, size_t left)
{
    while (left > 0) {
        ssize_t written = write(fd, bytes, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        left -= (size_t)written;
    }
    return true;
}

/* Beside the old file and then in its place: a reader finds the old or the new one, whole. */
static bool
replace_file(const char *path, const char *bytes, size_t count)
{
    char *real = realpath(path, NULL); /* a link stays one */
    char *unfinished = xasprintf("%s.%d.new", real != NULL ? real : path, (int)getpid());
    int fd = open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    bool written = fd >= 0 && write_all(fd, bytes, count);
    int cause = errno;
    if (fd >= 0 && close(fd) != 0 && written) { /* some file systems tell only now that there was no room */
        cause = errno;
        written = false;
    }
    if (written && rename(unfinished, real != NULL ? real : path) != 0) {
        cause = errno;
        written = false;
    }
    if (fd >= 0 && !written)
        unlink(unfinished);
    free(unfinished);
    free(real);
    errno = cause;
    return written;
}

static bool
write_into(const char *path, const char *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    bool written = fd >= 0 && write_all(fd, bytes, count);
    int cause = errno;
    if (fd >= 0)
        close(fd);
    errno = cause;
    return written;
}

bool
whole_file_write_bytes(const char *path, const void *bytes, size_t count)
{
    struct stat file;
    bool special = stat(path, &file) == 0 && !S_ISREG(file.st_mode);
    return special ? write_into(path, bytes, count) : replace_file(path, bytes, count);
}

bool
whole_file_write(const char *path, const char *text)
{
    return whole_file_write_bytes(path, text, strlen(text));
}

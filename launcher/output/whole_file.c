/* whole_file.c - see whole_file.h. */
#include "launcher/output/whole_file.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/file_read.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 4 << 20 };

/* What a helper writes. */
struct content {
    const char *path;
    const char *bytes;
    size_t count;
    bool appends, anew; /* as whole_file_append(); else it replaces the file */
};

/* ---- where a name leads ---- */

/* The file's own name behind links: malloc'ed. NULL with errno; ELOOP: it or a link on the way to it belongs to another
 * user, who may want it overwritten, or read. */
static char *
follow_links(const char *path)
{
    bool refused;
    char *name = path_walk(path, PATH_WRITE, &refused);
    if (!refused)
        return name;
    free(name);
    errno = ELOOP;
    return NULL;
}

/* "-" is standard output. */
static const char *
meant(const char *path)
{
    return strcmp(path, "-") == 0 ? "/dev/stdout" : path;
}

bool
whole_file_is_foreign(const char *path)
{
    char *name = follow_links(path);
    free(name);
    return name == NULL;
}

/* Of our own stdout and stderr, the one that the file is; -1: none. */
static int
own_descriptor(const struct stat *file)
{
    struct stat own;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (fstat(fd, &own) == 0 && own.st_dev == file->st_dev && own.st_ino == file->st_ino)
            return fd;
    }
    return -1;
}

static int
look_at_target(const void *data)
{
    const char *path = meant(data);
    struct stat file;
    helper_takes_time();
    bool there = stat(path, &file) == 0;
    char *copy = xstrdup(path);
    int cause = there && S_ISDIR(file.st_mode)                                         ? EISDIR
                : (!there || own_descriptor(&file) < 0) && whole_file_is_foreign(path) ? ELOOP
                : access(dirname(copy), W_OK | X_OK) != 0                              ? errno
                                                                                       : 0;
    free(copy);
    return cause;
}

bool
whole_file_check(const char *path, const char *option, struct error *error)
{
    int cause = path != NULL ? helper_do(look_at_target, path) : 0;
    if (cause == 0)
        return true;
    if (cause == EISDIR)
        return error_set(error, DDPRUN_EXIT_USAGE, "%s, in %s, is a folder; name a file", path, option);
    return error_set(error, DDPRUN_EXIT_USAGE, "cannot write to %s, in %s: %s; name another file", path, option,
                     file_why(cause));
}

/* ---- writing, in the helper ---- */

/* False with errno: not all of it is in the file. A large file is written in pieces that are known to have arrived. */
static bool
write_all(int fd, const char *bytes, size_t left)
{
    bool large = left > PIECE_BYTES;
    while (left > 0) {
        ssize_t written = write(fd, bytes, left < PIECE_BYTES ? left : PIECE_BYTES);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        if (large)
            (void)fdatasync(fd);
        helper_goes_on();
        bytes += written;
        left -= (size_t)written;
    }
    return true;
}

/* Also some file systems tell only at the close that there was no room. 0 or an errno; fd < 0: errno is why. */
static int
write_and_close(int fd, const struct content *content)
{
    int cause = fd < 0 || !write_all(fd, content->bytes, content->count) ? errno : 0;
    if (fd >= 0 && close(fd) != 0 && cause == 0)
        cause = errno;
    return cause;
}

/* Beside the old file and then in its place: a reader finds the old or the new one, whole. */
static int
replace_file(const char *name, const struct content *content)
{
    char *unfinished = xasprintf("%s.%d.new", name, (int)getpid());
    int fd = open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    int cause = write_and_close(fd, content);
    if (cause == 0 && rename(unfinished, name) != 0)
        cause = errno;
    if (fd >= 0 && cause != 0)
        unlink(unfinished);
    free(unfinished);
    return cause;
}

/* What is no regular file, or is to keep what it holds. What `content->path` leads to may be named by the kernel alone,
 * as /dev/fd/63 is: it is opened by that name, and must not have become a regular file meanwhile. */
static int
write_into(const char *name, const struct content *content)
{
    struct stat file;
    int more = content->appends ? O_CREAT | O_NOFOLLOW | (content->anew ? O_TRUNC : 0) : 0;
    int fd = open(content->appends ? name : content->path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC | more, 0666);
    if (fd < 0 || content->appends || (fstat(fd, &file) == 0 && !S_ISREG(file.st_mode)))
        return write_and_close(fd, content);
    close(fd);
    return ELOOP;
}

static int
write_file(const void *data)
{
    struct content of = *(const struct content *)data, *content = &of;
    struct stat file;
    of.path = meant(of.path);
    bool there = stat(content->path, &file) == 0;
    int own = there ? own_descriptor(&file) : -1;
    if (own >= 0) {
        helper_takes_time();
        return write_and_close(dup(own), content);
    }
    char *name = follow_links(content->path);
    if (name == NULL)
        return errno;
    bool stays = content->appends || (there && !S_ISREG(file.st_mode));
    int cause = stays ? write_into(name, content) : replace_file(name, content);
    free(name);
    return cause;
}

static bool
write_content(const struct content *content)
{
    errno = helper_do(write_file, content);
    return errno == 0;
}

bool
whole_file_write(const char *path, const void *bytes, size_t count)
{
    return write_content(&(struct content){.path = path, .bytes = bytes, .count = count});
}

bool
whole_file_append(const char *path, bool anew, const char *text)
{
    return write_content(&(struct content){path, text, strlen(text), true, anew});
}

/* ---- beside a job's work ---- */

void
side_file_do(struct side_file *file, helper_work work, const void *data)
{
    if (file->path != NULL)
        helper_begin(&file->helper, work, data);
}

void
side_file_write(struct side_file *file, const char *text)
{
    side_file_look(file, false);
    if (file->helper.pid != 0) {
        free(file->next);
        file->next = xstrdup(text);
        return;
    }
    side_file_do(file, write_file, &(struct content){.path = file->path, .bytes = text, .count = strlen(text)});
}

void
side_file_look(struct side_file *file, bool waits)
{
    int cause;
    while (helper_is_over(&file->helper, waits, &cause)) {
        if (cause != 0 && !file->failed)
            message_line("cannot write %s, in %s: %s; %s", file->path, file->option, file_why(cause), file->loss);
        file->failed = cause != 0;
        char *next = file->next;
        file->next = NULL;
        if (next != NULL && !file->failed)
            side_file_write(file, next);
        free(next);
    }
}

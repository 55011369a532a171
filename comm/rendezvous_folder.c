/*
 * rendezvous_folder.c - see rendezvous_folder.h. The launcher removes the folder with all that is in it.
 */
#include "comm/rendezvous_folder.h"

#include "base/clock.h"
#include "base/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POLL_NS = 1000000 };

struct names {
    char whole[PATH_MAX], unfinished[PATH_MAX];
};

static bool
make_names(const struct rendezvous *rendezvous, const char *key, struct names *names, struct comm_error *error)
{
    const char *folder = getenv(DDPRUN_ENV_JOB_DIR);
    if (folder == NULL)
        return comm_fail_by(error, COMM_OWN, "%s is not set; start the program with ddprun", DDPRUN_ENV_JOB_DIR);
    int whole = snprintf(names->whole, PATH_MAX, "%s/%s.%u", folder, key, rendezvous->generation);
    int unfinished = snprintf(names->unfinished, PATH_MAX, "%s/%s.%u.new", folder, key, rendezvous->generation);
    return (whole < PATH_MAX && unfinished < PATH_MAX) ||
           comm_fail_by(error, COMM_OWN, "the job folder's path is too long: %.300s", folder);
}

/* A rank that sees the file sees all of it. */
static bool
give(const struct names *names, const void *mine, size_t bytes, struct comm_error *error)
{
    int fd = open(names->unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, mine, bytes) == (ssize_t)bytes;
    int reason = errno;
    if (fd >= 0)
        close(fd);
    if (written && rename(names->unfinished, names->whole) == 0)
        return true;
    reason = written ? errno : reason;
    return comm_fail_by(error, COMM_OWN, "cannot write %.300s: %s; is there room?", names->whole, strerror(reason));
}

static bool
read_whole(int fd, void *out, size_t bytes)
{
    struct stat file;
    return fstat(fd, &file) == 0 && file.st_uid == geteuid() && file.st_size == (off_t)bytes &&
           read(fd, out, bytes) == (ssize_t)bytes;
}

static bool
take(const struct names *names, const char *key, void *out, size_t bytes, int timeout_s, struct comm_error *error)
{
    int64_t deadline_ms = clock_now_ms() + (int64_t)timeout_s * 1000;
    int fd;
    while ((fd = open(names->whole, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)) < 0) {
        if (errno != ENOENT && errno != EINTR)
            return comm_fail(error, "cannot read %.300s: %s", names->whole, strerror(errno));
        if (clock_now_ms() > deadline_ms)
            return comm_fail_by(error, COMM_OTHERS, "waited %d s for rank 0, at the exchange of \"%s\"", timeout_s,
                                key);
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    bool fits = read_whole(fd, out, bytes);
    close(fd);
    return fits || comm_fail(error, "rank 0 gave \"%s\" in another form; are all ranks the same ddprun?", key);
}

bool
rendezvous_folder_share(const struct rendezvous *rendezvous, const char *key, const void *mine, void *out, size_t bytes,
                        int timeout_s, struct comm_error *error)
{
    struct names names;
    if (!make_names(rendezvous, key, &names, error))
        return false;
    if (rendezvous->rank != 0)
        return take(&names, key, out, bytes, timeout_s, error);
    memcpy(out, mine, bytes);
    return give(&names, mine, bytes, error);
}

/* secret.c - see search.h. */
#include "launcher/cluster/address/search.h"

#include "base/protocol.h"
#include "launcher/cluster/auth.h"
#include "launcher/common/file_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANDOM_BYTES = 32 };

bool
secret_path(const char *given, char path[SECRET_PATH_BYTES], struct error *error)
{
    const char *home = getenv("HOME");
    int length;
    if (given != NULL)
        length = snprintf(path, SECRET_PATH_BYTES, "%s", given);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, SECRET_PATH_BYTES, "%s/.config/ddprun/secret", home);
    else
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "HOME is not set, so this user's secret has no folder; give --secret-file FILE");
    return length < SECRET_PATH_BYTES - 64 ||
           error_set(error, DDPRUN_EXIT_USAGE, "the path of the secret is too long; give a shorter --secret-file");
}

static bool
check_rights(const struct stat *file, const char *path, bool is_private, struct error *error)
{
    mode_t forbidden = is_private ? 077 : 022;
    if (file->st_uid != geteuid() && (is_private || owner_is_other(file->st_uid)))
        return error_set(error, DDPRUN_EXIT_USAGE, "the secret %s belongs to another user; use a file of your own",
                         path);
    return (file->st_mode & forbidden) == 0 ||
           error_set(error, DDPRUN_EXIT_USAGE, "other users can %s the secret %s; chmod %s %s",
                     is_private ? "read" : "write", path, is_private ? "600" : "go-w", path);
}

/* No other user may lead the path elsewhere. */
static bool
check_way(const char *path, struct error *error)
{
    bool refused;
    char *at = path_walk(path, PATH_KEPT, &refused);
    if (refused)
        error_set(error, DDPRUN_EXIT_USAGE,
                  "other users can replace %.300s, through which the secret %.300s is reached; take the right "
                  "to write its folder from them: chmod go-w",
                  at, path);
    free(at);
    return !refused;
}

bool
secret_read(const char *path, bool is_private, struct secret *secret, bool *is_missing_p, struct error *error)
{
    enum { MOST_BYTES = 1 << 20 };
    struct stat file;
    size_t count;
    char *bytes = file_read(path, MOST_BYTES, &count, &file);
    *is_missing_p = bytes == NULL && errno == ENOENT;
    if (bytes == NULL)
        return file_read_refused("the secret ", path, "", error);
    bool ok = check_rights(&file, path, is_private, error) && check_way(path, error);
    count = count < sizeof(secret->bytes) ? count : sizeof(secret->bytes);
    memcpy(secret->bytes, bytes, count);
    while (count > 0 && (bytes[count - 1] == '\n' || bytes[count - 1] == '\r'))
        --count;
    free(bytes);
    secret->count = count;
    if (!ok)
        return false;
    return count >= SECRET_LEAST_BYTES ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "the secret %s has %zu bytes, and needs %d at least: head -c 32 /dev/urandom", path, count,
                     SECRET_LEAST_BYTES);
}

/* Its folders, of the user alone. */
static void
make_folders(const char *path)
{
    char folder[SECRET_PATH_BYTES];
    snprintf(folder, sizeof(folder), "%s", path);
    char *last = strrchr(folder, '/');
    *last = '\0';
    char *before = strrchr(folder, '/');
    *before = '\0';
    (void)mkdir(folder, 0700);
    *before = '/';
    (void)mkdir(folder, 0700);
}

static bool
write_new(const char *path)
{
    unsigned char random[RANDOM_BYTES];
    char text[2 * RANDOM_BYTES + 2]; /* digits, a line end, NUL */
    if (!auth_random(random, sizeof(random)))
        return false;
    for (int i = 0; i < RANDOM_BYTES; ++i)
        snprintf(text + (size_t)i * 2, 4, "%02x\n", random[i]); /* the last line end stays */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1 && fsync(fd) == 0;
    int cause = errno;
    if (fd >= 0)
        close(fd);
    errno = cause;
    return ok;
}

bool
secret_make(const char *path, struct error *error)
{
    char beside[SECRET_PATH_BYTES + 32];
    snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid());
    make_folders(path);
    (void)unlink(beside);
    bool ok = write_new(beside) && (link(beside, path) == 0 || errno == EEXIST);
    int cause = errno;
    (void)unlink(beside);
    return ok || error_set(error, DDPRUN_EXIT_USAGE,
                           "cannot make %s, the secret of this user's jobs: %s; make one, or give --secret-file FILE",
                           path, strerror(cause));
}

/*
 * secret.c - see secret.h.
 */
#include "launcher/cluster/address/secret.h"

#include "base/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
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
                         "no HOME is set, in which the secret of this user's jobs would be; give --secret-file FILE");
    return length < SECRET_PATH_BYTES - 64 ||
           error_set(error, DDPRUN_EXIT_USAGE, "the path of the secret is too long; give a shorter --secret-file");
}

static bool
check_rights(int fd, const char *path, bool is_private, struct error *error)
{
    struct stat file;
    mode_t forbidden = is_private ? 077 : 022;
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode))
        return error_set(error, DDPRUN_EXIT_USAGE, "the secret %s is not a file; name one that is", path);
    if (file.st_uid != geteuid() && (is_private || file.st_uid != 0))
        return error_set(error, DDPRUN_EXIT_USAGE, "the secret %s belongs to another user; use a file of your own",
                         path);
    return (file.st_mode & forbidden) == 0 ||
           error_set(error, DDPRUN_EXIT_USAGE, "other users can %s the secret %s; chmod %s %s",
                     is_private ? "read" : "write", path, is_private ? "600" : "go-w", path);
}

bool
secret_read(const char *path, bool is_private, struct secret *secret, bool *is_missing_p, struct error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would be waited for */
    *is_missing_p = fd < 0 && errno == ENOENT;
    if (fd < 0)
        return error_set(error, DDPRUN_EXIT_USAGE, "cannot read the secret %s: %s", path, strerror(errno));
    ssize_t count = 0;
    bool ok = check_rights(fd, path, is_private, error);
    if (ok)
        count = read(fd, secret->bytes, sizeof(secret->bytes));
    close(fd);
    while (count > 0 && (secret->bytes[count - 1] == '\n' || secret->bytes[count - 1] == '\r'))
        --count;
    if (!ok)
        return false;
    secret->count = count > 0 ? (size_t)count : 0;
    return count >= SECRET_LEAST_BYTES ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "the secret %s has %zd bytes, and needs %d at least: head -c 32 /dev/urandom", path, count,
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
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
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

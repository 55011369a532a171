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

/* Whether other users can put another entry into the folder in place of this one. A user's own group has no others. */
static bool
others_can_replace(const struct stat *folder, const struct stat *entry)
{
    bool by_group = (folder->st_mode & S_IWGRP) != 0 && folder->st_gid != getegid() && folder->st_gid != 0;
    if ((folder->st_mode & S_IWOTH) == 0 && !by_group)
        return false;
    bool is_kept = entry->st_uid == geteuid() || entry->st_uid == 0; /* where each may only remove its own */
    return (folder->st_mode & S_ISVTX) == 0 || !is_kept;
}

/* Follows the path, through its links: no other user may lead it elsewhere. What is not there ends the way. */
static bool
check_way(const char *path, int links, struct error *error)
{
    char at[SECRET_PATH_BYTES] = "", target[SECRET_PATH_BYTES], next[2 * SECRET_PATH_BYTES];
    struct stat folder, entry;
    if (stat(path[0] == '/' ? "/" : ".", &folder) != 0)
        return true;
    for (const char *name = path; *name != '\0'; folder = entry) {
        size_t slashes = strspn(name, "/"), length = strcspn(name + slashes, "/");
        snprintf(at + strlen(at), sizeof(at) - strlen(at), "%.*s", (int)(slashes + length), name);
        name += slashes + length;
        if (length == 0 || lstat(at, &entry) != 0)
            return true;
        if (others_can_replace(&folder, &entry))
            return error_set(
                error, DDPRUN_EXIT_USAGE,
                "other users can replace %.300s, through which the secret %.300s is reached; take the right "
                "to write its folder from them: chmod go-w",
                at, path);
        ssize_t count = S_ISLNK(entry.st_mode) ? readlink(at, target, sizeof(target) - 1) : -1;
        if (count < 0)
            continue;
        target[count] = '\0';
        size_t before = target[0] == '/' ? 0 : strlen(at) - length;
        snprintf(next, sizeof(next), "%.*s%s%s", (int)before, at, target, name);
        return links == 0 || strlen(next) >= SECRET_PATH_BYTES || check_way(next, links - 1, error);
    }
    return true;
}

bool
secret_read(const char *path, bool is_private, struct secret *secret, bool *is_missing_p, struct error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would be waited for */
    *is_missing_p = fd < 0 && errno == ENOENT;
    if (fd < 0)
        return error_set(error, DDPRUN_EXIT_USAGE, "cannot read the secret %s: %s", path, strerror(errno));
    enum { LINKS = 40 }; /* the system follows no more (path_resolution(7)) */
    ssize_t count = 0;
    bool ok = check_rights(fd, path, is_private, error) && check_way(path, LINKS, error);
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

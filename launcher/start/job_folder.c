/*
 * job_folder.c - see job_folder.h. Never follows a symbolic link: all users can write to /tmp.
 */
#include "launcher/start/job_folder.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/file_read.h"
#include "launcher/common/network.h"
#include "launcher/common/xcalloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { RANDOM_LETTERS = 6, DEEPEST_FOLDER = 16, TRIES = 10, PREFIX_BYTES = 128 };

/* "ddprun-<uid>-<host>-": our folders' names begin so. On NFS a folder's lock is known to its own host alone. */
static void
name_prefix(char prefix[PREFIX_BYTES])
{
    snprintf(prefix, PREFIX_BYTES, "ddprun-%lu-%.64s-", (unsigned long)geteuid(), host_name());
}

/* Opens folder `name` in `parent` and locks it; -1 with errno: EPERM: another user owns it, EWOULDBLOCK: another
 * process holds its lock. */
static int
open_and_lock(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    struct stat folder;
    int cause = 0;
    if (fstat(fd, &folder) != 0)
        cause = errno;
    else if (folder.st_uid != geteuid())
        cause = EPERM;
    else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        cause = errno;
    if (cause == 0)
        return fd;
    close(fd);
    errno = cause;
    return -1;
}

/* Empties the folder open at `fd`. By getdents64(2), as readdir(3) is not async-signal-safe. */
static void
empty_folder(int fd, int depth)
{
    _Alignas(struct dirent64) char entries[2048];
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (ssize_t count; own >= 0 && (count = getdents64(own, entries, sizeof(entries))) > 0;) {
        const struct dirent64 *entry;
        for (ssize_t at = 0; at < count; at += entry->d_reclen) {
            entry = (const struct dirent64 *)(entries + at);
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            if (unlinkat(fd, entry->d_name, 0) == 0 || depth >= DEEPEST_FOLDER)
                continue;
            int inner = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (inner < 0)
                continue;
            empty_folder(inner, depth + 1);
            close(inner);
            unlinkat(fd, entry->d_name, AT_REMOVEDIR);
        }
    }
    if (own >= 0)
        close(own);
}

/* Removes folders of launchers that are gone: those whose lock is free. */
static void
sweep(const char *place)
{
    char prefix[PREFIX_BYTES];
    name_prefix(prefix);
    DIR *entries = opendir(place);
    if (entries == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
            strlen(entry->d_name) != strlen(prefix) + RANDOM_LETTERS)
            continue;
        int fd = open_and_lock(dirfd(entries), entry->d_name);
        if (fd < 0)
            continue;
        empty_folder(fd, 0);
        unlinkat(dirfd(entries), entry->d_name, AT_REMOVEDIR);
        close(fd);
    }
    closedir(entries);
}

/* Between mkdtemp and the lock another launcher may have swept the folder away. */
static bool
is_still_there(int fd, const char *path)
{
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && lstat(path, &named) == 0 && ours.st_ino == named.st_ino &&
           ours.st_dev == named.st_dev;
}

/* Makes a folder in `place` and locks it. False with errno. */
static bool
make_in(const char *place, struct job_folder *folder_p)
{
    char prefix[PREFIX_BYTES];
    name_prefix(prefix);
    for (int i = 0; i < TRIES; ++i) {
        char *path = xasprintf("%s/%sXXXXXX", place, prefix);
        if (mkdtemp(path) == NULL) {
            free(path);
            return false;
        }
        int fd = open_and_lock(AT_FDCWD, path);
        if (fd >= 0 && is_still_there(fd, path)) {
            *folder_p = (struct job_folder){.path = path, .fd = fd};
            return true;
        }
        int cause = errno;
        bool swept = fd >= 0 || cause == ENOENT || cause == EWOULDBLOCK;
        if (fd >= 0)
            close(fd);
        if (!swept) /* nor would the next do: no descriptor is left, or the umask takes the owner's own rights */
            rmdir(path);
        free(path);
        if (!swept) {
            errno = cause;
            return false;
        }
    }
    errno = EAGAIN;
    return false;
}

/* The folder's name behind all links, malloc'ed; NULL with errno. */
static char *
find_folder(const char *name)
{
    struct stat folder;
    char *place = realpath(name, NULL);
    if (place != NULL && stat(place, &folder) == 0 && S_ISDIR(folder.st_mode))
        return place;
    int cause = place != NULL ? ENOTDIR : errno;
    free(place);
    errno = cause;
    return NULL;
}

/* The user's own place for such folders, as the XDG Base Directory Specification has it: absolute, ours, closed to all
 * others. After su or sudo the variable may still name another user's. */
static char *
runtime_place(void)
{
    const char *wanted = getenv("XDG_RUNTIME_DIR");
    struct stat folder;
    char *place = wanted != NULL && wanted[0] == '/' ? find_folder(wanted) : NULL;
    if (place != NULL && stat(place, &folder) == 0 && folder.st_uid == geteuid() && (folder.st_mode & 077) == 0)
        return place;
    free(place);
    return NULL;
}

/* The component of the way to the folder, or the folder, in which another user could put a folder in the place of the
 * job folder: malloc'ed; NULL: there is none. */
static char *
find_replaceable(const char *place)
{
    struct stat folder;
    bool refused;
    char *at = path_walk(place, PATH_KEPT, &refused);
    if (refused || (stat(place, &folder) == 0 && others_can_replace(&folder, geteuid())))
        return at;
    free(at);
    return NULL;
}

/* Where $TMPDIR is; another place, with a line, if another user can change it. Error: there is none. */
static char *
temporary_place(struct error *error)
{
    static const char *const others[] = {"/dev/shm", "/tmp"};
    const char *named = getenv("TMPDIR"), *wanted = named != NULL && named[0] != '\0' ? named : "/tmp";
    char *place = find_folder(wanted);
    if (place == NULL) {
        error_set(error, DDPRUN_EXIT_FAILURE, "cannot use %s for temporary files: %s; set TMPDIR to a folder", wanted,
                  errno == ENOTDIR ? "it is not a folder" : strerror(errno));
        return NULL;
    }
    char *at = find_replaceable(place), *better = NULL;
    for (size_t i = 0; at != NULL && better == NULL && i < sizeof(others) / sizeof(others[0]); ++i) {
        char *open_there = find_replaceable(others[i]);
        better = open_there == NULL && access(others[i], W_OK | X_OK) == 0 ? xstrdup(others[i]) : NULL;
        free(open_there);
    }
    if (at == NULL)
        return place;
    if (better != NULL)
        message_line("another user can replace %s, so temporary files are not in %s, but in %s", at, wanted, better);
    else
        error_set(error, DDPRUN_EXIT_FAILURE,
                  "cannot use %s for temporary files: another user can replace %s; set TMPDIR to another folder",
                  wanted, at);
    free(at);
    free(place);
    return better;
}

/* Whether a job's files fit in: a folder itself may need no room. A file system without a fixed number of files says 0.
 */
static bool
has_room(const struct job_folder *folder)
{
    enum { ROOM_BYTES = 4 << 20, ROOM_FILES = 64 };
    struct statvfs place;
    if (fstatvfs(folder->fd, &place) == 0 && place.f_files > 0 && place.f_favail < ROOM_FILES)
        return false;
    int fd = openat(folder->fd, "room", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool fits = fd >= 0 && posix_fallocate(fd, 0, ROOM_BYTES) == 0;
    if (fd >= 0)
        close(fd);
    (void)unlinkat(folder->fd, "room", 0);
    return fits;
}

const char *
job_folder_remedy(int number)
{
    switch (number) {
    case EMFILE:
    case ENFILE:
        return "raise the limit of open files";
    case EROFS:
    case EACCES:
        return "set TMPDIR to a folder that you may write to";
    default:
        return "make room there, or set TMPDIR";
    }
}

bool
job_folder_make(struct job_folder *folder_p, struct error *error)
{
    char *place = runtime_place();
    bool made = false;
    if (place != NULL) {
        sweep(place);
        made = make_in(place, folder_p);
        if (made && !has_room(folder_p)) {
            job_folder_remove(folder_p);
            made = false; /* there is another place */
        }
        free(place);
    }
    if (made)
        return true;

    place = temporary_place(error);
    if (place == NULL)
        return false;
    sweep(place);
    made = make_in(place, folder_p);
    if (!made)
        error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a folder in %s: %s; %s", place, strerror(errno),
                  job_folder_remedy(errno));
    free(place);
    return made;
}

void
job_folder_remove(struct job_folder *folder)
{
    if (folder->path == NULL)
        return;
    empty_folder(folder->fd, 0);
    rmdir(folder->path);
    close(folder->fd);
    *strrchr(folder->path, '/') = '\0';
    sweep(folder->path); /* a launcher of the same job may have been killed */
    free(folder->path);
    *folder = (struct job_folder){.fd = -1};
}

void
job_folder_clear(const char *path)
{
    int fd = -1;
    for (int i = 0; i < TRIES && fd < 0; ++i) {
        fd = open_and_lock(AT_FDCWD, path);
        if (fd < 0 && errno == EWOULDBLOCK) /* a process that ends closes its files one after the other */
            poll(NULL, 0, 100);
    }
    if (fd < 0)
        return;
    empty_folder(fd, 0);
    rmdir(path);
    close(fd);
}

/*
 * job_folder.c - see job_folder.h. Never follows a symbolic link: all users can write to /tmp.
 */
#include "launcher/start/job_folder.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANDOM_LETTERS = 6, DEEPEST_FOLDER = 16, TRIES = 10 };

/* "ddprun-<uid>-": the beginning of our folders' names. */
static void
name_prefix(char prefix[32])
{
    snprintf(prefix, 32, "ddprun-%lu-", (unsigned long)geteuid());
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
    char prefix[32];
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
    char prefix[32];
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

/* The user's own place for such folders, as the XDG Base Directory Specification has it: absolute, ours, closed to all
 * others. After su or sudo the variable may still name another user's. */
static char *
runtime_place(void)
{
    const char *wanted = getenv("XDG_RUNTIME_DIR");
    struct stat folder;
    if (wanted == NULL || wanted[0] != '/')
        return NULL;
    char *place = realpath(wanted, NULL);
    if (place != NULL && stat(place, &folder) == 0 && S_ISDIR(folder.st_mode) && folder.st_uid == geteuid() &&
        (folder.st_mode & 077) == 0)
        return place;
    free(place);
    return NULL;
}

/*
 * In a folder that all users can write, another user could put a folder in the place of the job folder, unless the
 * sticky bit forbids that (inode(7)); the same holds for each folder on the way to it. The name of such a folder into
 * name[PATH_MAX], or false.
 */
static bool
is_open_to_all(const char *place, char name[PATH_MAX])
{
    struct stat folder;
    snprintf(name, PATH_MAX, "%s", place);
    for (;;) {
        if (stat(name, &folder) == 0 && (folder.st_mode & S_IWOTH) != 0 && (folder.st_mode & S_ISVTX) == 0)
            return true;
        char *slash = strrchr(name, '/');
        if (slash == NULL || name[1] == '\0')
            return false;
        slash[slash == name ? 1 : 0] = '\0';
    }
}

static char *
temporary_place(struct error *error)
{
    const char *wanted = getenv("TMPDIR");
    char open_folder[PATH_MAX];
    if (wanted == NULL || wanted[0] == '\0')
        wanted = "/tmp";
    char *place = realpath(wanted, NULL);
    struct stat folder;
    bool found = place != NULL && stat(place, &folder) == 0;
    if (!found || !S_ISDIR(folder.st_mode)) {
        error_set(error, DDPRUN_EXIT_FAILURE, "cannot use %s for temporary files: %s; set TMPDIR to a folder", wanted,
                  found ? "it is not a folder" : strerror(errno));
        free(place);
        return NULL;
    }
    if (!is_open_to_all(place, open_folder))
        return place;
    error_set(error, DDPRUN_EXIT_FAILURE,
              "cannot use %s for temporary files: in %s every user could replace them; set its sticky bit (chmod "
              "+t), or TMPDIR to another folder",
              wanted, open_folder);
    free(place);
    return NULL;
}

bool
job_folder_make(struct job_folder *folder_p, struct error *error)
{
    char *place = runtime_place();
    bool made = false;
    if (place != NULL) {
        sweep(place);
        made = make_in(place, folder_p); /* if not, because it is full, there is another place */
        free(place);
    }
    if (made)
        return true;

    place = temporary_place(error);
    if (place == NULL)
        return false;
    sweep(place);
    made = make_in(place, folder_p);
    if (!made) {
        bool no_descriptor = errno == EMFILE || errno == ENFILE;
        error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a folder in %s: %s; %s", place, strerror(errno),
                  no_descriptor ? "raise the limit of open files" : "make room there, or set TMPDIR");
    }
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

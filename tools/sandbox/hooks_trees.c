/*
 * hooks_trees.c - what libc offers above opendir(): inside, it calls its own, which would see real directories only.
 * So they are done here, with the hooks of the other files.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <glob.h>

/* ---- scandir ---- */

typedef int scandir_filter(const struct dirent *entry);
typedef int scandir_order(const struct dirent **a, const struct dirent **b);

struct entries {
    struct dirent **list;
    size_t count, size;
};

static bool
add_entry(struct entries *entries, const struct dirent *entry)
{
    if (entries->count == entries->size) {
        size_t size = entries->size * 2 + 16;
        struct dirent **list = realloc(entries->list, size * sizeof(*list));
        if (list == NULL)
            return false;
        entries->list = list;
        entries->size = size;
    }
    struct dirent *copy = malloc(entry->d_reclen);
    if (copy == NULL)
        return false;
    entries->list[entries->count++] = memcpy(copy, entry, entry->d_reclen);
    return true;
}

static int
scan_entries(int dirfd, const char *path, struct dirent ***list, scandir_filter *filter, scandir_order *order)
{
    struct entries entries = {NULL, 0, 0};
    const struct dirent *entry;
    int saved = errno, fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (stream == NULL) {
        int error = errno;
        if (fd >= 0)
            (void)close(fd);
        errno = error;
        return -1;
    }
    errno = 0;
    while ((entry = readdir(stream)) != NULL) {
        if ((filter == NULL || filter(entry) != 0) && !add_entry(&entries, entry)) {
            errno = ENOMEM;
            break;
        }
        errno = 0;
    }
    int error = errno;
    (void)closedir(stream);
    if (error != 0) {
        while (entries.count > 0)
            free(entries.list[--entries.count]);
        free(entries.list);
        errno = error;
        return -1;
    }
    if (order != NULL && entries.count > 0)
        qsort(entries.list, entries.count, sizeof(*entries.list),
              (int (*)(const void *, const void *))(void (*)(void))order);
    *list = entries.list;
    errno = saved;
    return (int)entries.count;
}

int
scandirat(int dirfd, const char *path, struct dirent ***list, scandir_filter *filter, scandir_order *order)
{
    if (files_config() == NULL || !overlay_has_content())
        return REAL(scandirat)(dirfd, path, list, filter, order);
    return scan_entries(dirfd, path, list, filter, order);
}
ALSO(scandirat64, scandirat)

int
scandir(const char *path, struct dirent ***list, scandir_filter *filter, scandir_order *order)
{
    return scandirat(AT_FDCWD, path, list, filter, order);
}
ALSO(scandir64, scandir)

/* ---- glob: with the program's functions for directories, or else the hooks ---- */

static void *
glob_opendir(const char *path)
{
    return opendir(path);
}

static void
glob_closedir(void *stream)
{
    (void)closedir(stream);
}

static struct dirent *
glob_readdir(void *stream)
{
    return readdir(stream);
}

int
glob(const char *pattern, int flags, int (*failed)(const char *path, int error), glob_t *found)
{
    if (files_config() == NULL || (flags & GLOB_ALTDIRFUNC) != 0)
        return REAL(glob)(pattern, flags, failed, found);
    found->gl_opendir = glob_opendir;
    found->gl_closedir = glob_closedir;
    found->gl_readdir = glob_readdir;
    found->gl_stat = stat;
    found->gl_lstat = lstat;
    int result = REAL(glob)(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
    found->gl_flags &= ~GLOB_ALTDIRFUNC;
    return result;
}
ALSO(glob64, glob)

/*
 * hooks_trees.c - what libc offers above opendir(): inside, it calls its own, which would see real directories only.
 * So they are done here, with the hooks of the other files.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

/* ---- scandir ---- */

typedef void any_function(void); /* on these machines struct dirent and struct dirent64 are the same */
typedef int scandir_filter(const struct dirent64 *entry);
typedef int scandir_order(const struct dirent64 **a, const struct dirent64 **b);

struct entries {
    struct dirent64 **list;
    size_t count, size;
};

static bool
add_entry(struct entries *entries, const struct dirent64 *entry)
{
    if (entries->count == entries->size) {
        size_t size = entries->size * 2 + 16;
        struct dirent64 **list = realloc(entries->list, size * sizeof(*list));
        if (list == NULL)
            return false;
        entries->list = list;
        entries->size = size;
    }
    struct dirent64 *copy = malloc(entry->d_reclen);
    if (copy == NULL)
        return false;
    entries->list[entries->count++] = memcpy(copy, entry, entry->d_reclen);
    return true;
}

static int
scan_entries(int dirfd, const char *path, struct dirent64 ***list, scandir_filter *filter, scandir_order *order)
{
    struct entries entries = {NULL, 0, 0};
    const struct dirent64 *entry;
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
    while ((entry = readdir64(stream)) != NULL) {
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
              (int (*)(const void *, const void *))(any_function *)order);
    *list = entries.list;
    errno = saved;
    return (int)entries.count;
}

#define HOOK_SCANDIR(name, dirfd, type, declared, given)                                                      \
    int name declared                                                                                         \
    {                                                                                                         \
        if (files_config() == NULL || !overlay_has_content())                                                 \
            return REAL(name) given;                                                                          \
        return scan_entries(dirfd, path, (struct dirent64 ***)list, (scandir_filter *)(any_function *)filter, \
                            (scandir_order *)(any_function *)order);                                          \
    }
#define SCANDIR_CALLBACKS(type) \
    struct type ***list, int (*filter)(const struct type *), int (*order)(const struct type **, const struct type **)
HOOK_SCANDIR(scandir, AT_FDCWD, dirent, (const char *path, SCANDIR_CALLBACKS(dirent)), (path, list, filter, order))
HOOK_SCANDIR(scandir64, AT_FDCWD, dirent64, (const char *path, SCANDIR_CALLBACKS(dirent64)),
             (path, list, filter, order))
HOOK_SCANDIR(scandirat, dirfd, dirent, (int dirfd, const char *path, SCANDIR_CALLBACKS(dirent)),
             (dirfd, path, list, filter, order))
HOOK_SCANDIR(scandirat64, dirfd, dirent64, (int dirfd, const char *path, SCANDIR_CALLBACKS(dirent64)),
             (dirfd, path, list, filter, order))

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

static struct dirent64 *
glob_readdir64(void *stream)
{
    return readdir64(stream);
}

#define HOOK_GLOB(name, type, read, look, look_at_link)                                               \
    int name(const char *pattern, int flags, int (*failed)(const char *path, int error), type *found) \
    {                                                                                                 \
        if (files_config() == NULL || (flags & GLOB_ALTDIRFUNC) != 0)                                 \
            return REAL(name)(pattern, flags, failed, found);                                         \
        found->gl_opendir = glob_opendir;                                                             \
        found->gl_closedir = glob_closedir;                                                           \
        found->gl_readdir = read;                                                                     \
        found->gl_stat = look;                                                                        \
        found->gl_lstat = look_at_link;                                                               \
        int result = REAL(name)(pattern, flags | GLOB_ALTDIRFUNC, failed, found);                     \
        found->gl_flags &= ~GLOB_ALTDIRFUNC;                                                          \
        return result;                                                                                \
    }
HOOK_GLOB(glob, glob_t, glob_readdir, stat, lstat)
HOOK_GLOB(glob64, glob64_t, glob_readdir64, stat64, lstat64)

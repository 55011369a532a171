/*
 * hooks_trees.c - what libc offers above opendir(): inside, it calls its own, which would see real directories only.
 * So they are done here, with the hooks of the other files.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <errno.h>
#include <ftw.h>
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
scan(int dirfd, const char *path, struct dirent64 ***list, scandir_filter *filter, scandir_order *order)
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

#define HOOK_SCANDIR(name, dirfd, type, declared, given)                                              \
    int name declared                                                                                 \
    {                                                                                                 \
        if (files_config() == NULL || !overlay_has_content())                                         \
            return REAL(name) given;                                                                  \
        return scan(dirfd, path, (struct dirent64 ***)list, (scandir_filter *)(any_function *)filter, \
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

/* ---- ftw and nftw ---- */

typedef int ftw_function(const char *path, const struct stat *found, int what);
typedef int nftw_function(const char *path, const struct stat *found, int what, struct FTW *where);

struct tree {
    ftw_function *ftw; /* one of the two */
    nftw_function *nftw;
    int flags;
    dev_t device; /* of the root, for FTW_MOUNT */
    char *path;   /* PATH_MAX bytes */
};

static int
report_entry(struct tree *tree, const struct stat *found, int what, struct FTW where)
{
    if (tree->nftw != NULL)
        return tree->nftw(tree->path, found, what, &where);
    return tree->ftw(tree->path, found, what == FTW_SLN ? FTW_NS : what);
}

static int walk_tree(struct tree *tree, size_t length, struct FTW where);

/* All entries of the directory: 0, or what ends the walk. */
/* NOLINTNEXTLINE(misc-no-recursion) as deep as the tree */
static int
walk_children(struct tree *tree, struct dirent64 **list, int count, size_t length, struct FTW where)
{
    int result = 0;
    for (int i = 0; i < count; ++i) {
        const char *name = list[i]->d_name;
        size_t size = strlen(name) + 1, at = length + (length > 0 && tree->path[length - 1] != '/');
        if (result == 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            if (at + size > PATH_MAX) {
                errno = ENAMETOOLONG;
                result = -1;
            } else {
                tree->path[length] = '/';
                memcpy(tree->path + at, name, size);
                result = walk_tree(tree, at + size - 1, (struct FTW){(int)at, where.level + 1});
                tree->path[length] = '\0';
            }
            if ((tree->flags & FTW_ACTIONRETVAL) != 0 && result == FTW_SKIP_SUBTREE)
                result = 0;
        }
        free(list[i]);
    }
    free(list);
    return (tree->flags & FTW_ACTIONRETVAL) != 0 && result == FTW_SKIP_SIBLINGS ? 0 : result;
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static int
walk_directory(struct tree *tree, const struct stat *found, size_t length, struct FTW where)
{
    struct dirent64 **list = NULL;
    int count = scan(AT_FDCWD, tree->path, &list, NULL, NULL), result = 0;
    if (count < 0)
        return errno == EACCES ? report_entry(tree, found, FTW_DNR, where) : -1;
    if ((tree->flags & FTW_DEPTH) == 0)
        result = report_entry(tree, found, FTW_D, where);
    if (result != 0) {
        while (count > 0)
            free(list[--count]);
        free(list);
        return result;
    }
    result = walk_children(tree, list, count, length, where);
    if (result == 0 && (tree->flags & FTW_DEPTH) != 0)
        result = report_entry(tree, found, FTW_DP, where);
    return result;
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static int
walk_tree(struct tree *tree, size_t length, struct FTW where)
{
    struct stat found;
    bool physical = (tree->flags & FTW_PHYS) != 0;
    if ((physical ? lstat : stat)(tree->path, &found) != 0) {
        if (errno != EACCES && errno != ENOENT)
            return -1;
        if (!physical && lstat(tree->path, &found) == 0 && S_ISLNK(found.st_mode))
            return report_entry(tree, &found, FTW_SLN, where);
        return where.level == 0 ? -1 : report_entry(tree, &found, FTW_NS, where);
    }
    if (where.level == 0)
        tree->device = found.st_dev;
    if ((tree->flags & FTW_MOUNT) != 0 && found.st_dev != tree->device)
        return 0;
    if (S_ISLNK(found.st_mode))
        return report_entry(tree, &found, FTW_SL, where);
    return S_ISDIR(found.st_mode) ? walk_directory(tree, &found, length, where)
                                  : report_entry(tree, &found, FTW_F, where);
}

static int
walk(struct tree *tree, const char *path)
{
    size_t length = strlen(path);
    if (length == 0 || length >= PATH_MAX) {
        errno = length == 0 ? ENOENT : ENAMETOOLONG;
        return -1;
    }
    tree->path = malloc(PATH_MAX);
    if (tree->path == NULL)
        return -1;
    memcpy(tree->path, path, length + 1);
    while (length > 1 && tree->path[length - 1] == '/')
        tree->path[--length] = '\0';
    const char *slash = strrchr(tree->path, '/');
    int base = slash != NULL && slash[1] != '\0' ? (int)(slash + 1 - tree->path) : 0;
    int result = walk_tree(tree, length, (struct FTW){base, 0});
    int error = errno;
    free(tree->path);
    errno = error;
    return (tree->flags & FTW_ACTIONRETVAL) != 0 && (result == FTW_SKIP_SUBTREE || result == FTW_SKIP_SIBLINGS)
               ? 0
               : result;
}

/* Where links are followed in a circle, the walk ends with ELOOP; libc's sees the circle. */
#define HOOK_FTW(name, type)                                                  \
    int name(const char *path, type function, int descriptors)                \
    {                                                                         \
        if (files_config() == NULL || !overlay_has_content())                 \
            return REAL(name)(path, function, descriptors);                   \
        struct tree tree = {.ftw = (ftw_function *)(any_function *)function}; \
        return walk(&tree, path);                                             \
    }
HOOK_FTW(ftw, __ftw_func_t)
HOOK_FTW(ftw64, __ftw64_func_t)

#define HOOK_NFTW(name, type)                                                                   \
    int name(const char *path, type function, int descriptors, int flags)                       \
    {                                                                                           \
        if (files_config() == NULL || !overlay_has_content() || (flags & FTW_CHDIR) != 0)       \
            return REAL(name)(path, function, descriptors, flags);                              \
        struct tree tree = {.nftw = (nftw_function *)(any_function *)function, .flags = flags}; \
        return walk(&tree, path);                                                               \
    }
HOOK_NFTW(nftw, __nftw_func_t)
HOOK_NFTW(nftw64, __nftw64_func_t)

/*
 * hooks_names.c - calls that make, remove and rename entries of directories.
 *
 * Each decides what the kernel would answer in reality, then does it in FILES_WRITTEN, and marks what is really there
 * as removed. Of special files only a FIFO is made in the overlay; a real one is the real one.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

static bool
is_left_alone(const struct place *place)
{
    bool is_special = !S_ISREG(place->mode) && !S_ISDIR(place->mode) && !S_ISLNK(place->mode);
    return place->kind == PLACE_PASS || (place->kind == PLACE_REAL && is_special);
}

/* Hides what is really at the place, if it is seen once the copy is gone. */
static int
hide_real(const struct place *place)
{
    struct stat found;
    return overlay_sees_real(place->path, &found) ? overlay_mark_removed(place->path) : 0;
}

/* ---- removing ---- */

static int
remove_file(struct place *place)
{
    int saved = errno;
    if (place->kind == PLACE_ABSENT)
        return files_fail(ENOENT);
    if (place->last != LAST_NAME)
        return files_fail(EISDIR);
    if (place->ends_in_slash)
        return files_fail(S_ISDIR(place->mode) ? EISDIR : ENOTDIR);
    if (overlay_check_remove(place) != 0)
        return -1;
    if (S_ISDIR(place->mode))
        return files_fail(EISDIR);
    if (hide_real(place) != 0)
        return -1;
    if (raw_unlink(place->copy) != 0 && place->kind == PLACE_COPY)
        return -1;
    errno = saved; /* a real file may have got a copy since it was looked at (others.c) */
    return 0;
}

static int
remove_directory(struct place *place)
{
    int saved = errno;
    if (place->kind == PLACE_ABSENT)
        return files_fail(ENOENT);
    if (place->last == LAST_DOT)
        return files_fail(EINVAL);
    if (place->last == LAST_DOTDOT)
        return files_fail(ENOTEMPTY);
    if (overlay_check_remove(place) != 0)
        return -1;
    if (!S_ISDIR(place->mode))
        return files_fail(ENOTDIR);
    int empty = listing_is_empty(place);
    if (empty <= 0)
        return empty < 0 ? -1 : files_fail(ENOTEMPTY);
    if (hide_real(place) != 0)
        return -1;
    if (syscall(SYS_unlinkat, AT_FDCWD, place->copy, AT_REMOVEDIR) != 0 &&
        (errno != ENOENT || place->kind == PLACE_COPY))
        return -1;
    errno = saved;
    return 0;
}

int
unlinkat(int dirfd, const char *path, int flags)
{
    struct place place;
    others_keep(dirfd, path, PLACE_ENTRY, (flags & AT_REMOVEDIR) != 0 ? OTHERS_FOLDER : OTHERS_FILE);
    if (place_resolve(dirfd, path, PLACE_ENTRY, &place) != 0)
        return -1;
    if (place.kind == PLACE_PASS || (is_left_alone(&place) && (flags & AT_REMOVEDIR) == 0)) {
        place_use_real(&place, &dirfd, &path);
        return REAL(unlinkat)(dirfd, path, flags);
    }
    if ((flags & ~AT_REMOVEDIR) != 0)
        return files_fail(EINVAL);
    return (flags & AT_REMOVEDIR) != 0 ? remove_directory(&place) : remove_file(&place);
}

/* `is_left`: what it removes is not the run's; else it is removed by the call `removes`. */
#define HOOK_REMOVES(name, kept, is_left, removes)                \
    int name(const char *path)                                    \
    {                                                             \
        struct place place;                                       \
        int dirfd = AT_FDCWD;                                     \
        others_keep(dirfd, path, PLACE_ENTRY, kept);              \
        if (place_resolve(dirfd, path, PLACE_ENTRY, &place) != 0) \
            return -1;                                            \
        if (!(is_left))                                           \
            return removes;                                       \
        place_use_real(&place, &dirfd, &path);                    \
        return REAL(name)(path);                                  \
    }
HOOK_REMOVES(unlink, OTHERS_FILE, is_left_alone(&place), remove_file(&place))
HOOK_REMOVES(rmdir, OTHERS_FOLDER, place.kind == PLACE_PASS, remove_directory(&place))
HOOK_REMOVES(remove, OTHERS_FILE | OTHERS_FOLDER, is_left_alone(&place),
             S_ISDIR(place.mode) ? remove_directory(&place) : remove_file(&place))

/* ---- making ---- */

/* 1: *dirfd and *path are where to make it; 0: they are as the program gave them; -1 with errno. */
static int
prepare_making(int *dirfd, const char **path, bool is_directory, struct place *place)
{
    int saved = errno;
    others_keep(*dirfd, *path, PLACE_ENTRY, OTHERS_ABSENCE);
    if (place_resolve(*dirfd, *path, PLACE_ENTRY, place) != 0)
        return -1;
    if (place->kind == PLACE_PASS)
        return place_use_real(place, dirfd, path);
    if (place->kind != PLACE_ABSENT)
        return files_fail(EEXIST);
    if (place->ends_in_slash && !is_directory)
        return files_fail(ENOENT);
    if (overlay_prepare_create(place) != 0)
        return -1;
    place_use_copy(place, dirfd, path);
    errno = saved;
    return 1;
}

/* The call behind it gets the folder `at`. */
#define HOOK_MAKES(name, from, is_directory, declared, given)                                \
    int name declared                                                                        \
    {                                                                                        \
        struct place place;                                                                  \
        int at = from;                                                                       \
        return prepare_making(&at, &path, is_directory, &place) < 0 ? -1 : REAL(name) given; \
    }
HOOK_MAKES(mkdir, AT_FDCWD, true, (const char *path, mode_t mode), (path, mode))
HOOK_MAKES(mkdirat, dirfd, true, (int dirfd, const char *path, mode_t mode), (at, path, mode))
HOOK_MAKES(symlink, AT_FDCWD, false, (const char *target, const char *path), (target, path))
HOOK_MAKES(symlinkat, dirfd, false, (const char *target, int dirfd, const char *path), (target, at, path))
HOOK_MAKES(mkfifo, AT_FDCWD, false, (const char *path, mode_t mode), (path, mode))
HOOK_MAKES(mkfifoat, dirfd, false, (int dirfd, const char *path, mode_t mode), (at, path, mode))
HOOK_MAKES(mknod, AT_FDCWD, false, (const char *path, mode_t mode, dev_t device), (path, mode, device))
HOOK_MAKES(mknodat, dirfd, false, (int dirfd, const char *path, mode_t mode, dev_t device), (at, path, mode, device))
HOOK_MAKES(__xmknod, AT_FDCWD, false, (int version, const char *path, mode_t mode, dev_t *device),
           (version, path, mode, device))
HOOK_MAKES(__xmknodat, dirfd, false, (int version, int dirfd, const char *path, mode_t mode, dev_t *device),
           (version, at, path, mode, device))

/* A second name, `place`, for the file at `from`. */
static int
link_to(struct place *from, struct place *place)
{
    int saved = errno;
    if (place->kind != PLACE_ABSENT)
        return files_fail(EEXIST);
    if (place->ends_in_slash)
        return files_fail(ENOENT);
    if (overlay_check_create(place) != 0)
        return -1;
    if (S_ISDIR(from->mode))
        return files_fail(EPERM);
    if (overlay_make_parents(place) != 0 || listing_copy_up(from) != 0)
        return -1;
    errno = saved;
    return raw_link(from->copy, place->copy);
}

int
linkat(int olddirfd, const char *old, int newdirfd, const char *path, int flags)
{
    struct place from, place;
    others_keep(newdirfd, path, PLACE_ENTRY, OTHERS_ABSENCE);
    if (place_resolve(olddirfd, old, PLACE_FOLLOW_UNLESS((flags & AT_SYMLINK_FOLLOW) == 0), &from) != 0)
        return -1;
    if (from.kind == PLACE_ABSENT)
        return files_fail(ENOENT);
    if (place_resolve(newdirfd, path, PLACE_ENTRY, &place) != 0)
        return -1;
    if (from.kind == PLACE_PASS && place.kind == PLACE_PASS) {
        place_use_real(&from, &olddirfd, &old);
        place_use_real(&place, &newdirfd, &path);
        return REAL(linkat)(olddirfd, old, newdirfd, path, flags);
    }
    return from.kind == PLACE_PASS || place.kind == PLACE_PASS ? files_fail(EXDEV) : link_to(&from, &place);
}

int
link(const char *old, const char *path)
{
    return files_config() == NULL ? REAL(link)(old, path) : linkat(AT_FDCWD, old, AT_FDCWD, path, 0);
}

/* ---- renaming ---- */

static bool
is_same_file(const struct place *one, const struct place *other)
{
    struct stat a, b;
    return raw_lstat(one->kind == PLACE_COPY ? one->copy : one->path, &a) == 0 && other->kind != PLACE_ABSENT &&
           raw_lstat(other->kind == PLACE_COPY ? other->copy : other->path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static bool
is_same_folder(const struct place *one, const struct place *other)
{
    size_t length = (size_t)(strrchr(one->path, '/') - one->path);
    return length == (size_t)(strrchr(other->path, '/') - other->path) && strncmp(one->path, other->path, length) == 0;
}

/* What the kernel has against it; 1: nothing is to be done. */
static int
check_renaming(const struct place *from, const struct place *to, unsigned flags)
{
    const char *below;
    if (from->last != LAST_NAME)
        return files_fail(EBUSY);
    if (to->last != LAST_NAME)
        return files_fail((flags & RENAME_NOREPLACE) != 0 ? EEXIST : EBUSY);
    if (from->kind == PLACE_ABSENT)
        return files_fail(ENOENT);
    if ((flags & RENAME_NOREPLACE) != 0 && to->kind != PLACE_ABSENT)
        return files_fail(EEXIST);
    if (!S_ISDIR(from->mode) && (from->ends_in_slash || to->ends_in_slash))
        return files_fail(ENOTDIR);
    if (S_ISDIR(from->mode) && (below = files_below(to->path, from->path)) != NULL && *below != '\0')
        return files_fail(EINVAL);
    if ((below = files_below(from->path, to->path)) != NULL && *below != '\0')
        return files_fail(ENOTEMPTY);
    if (is_same_file(from, to))
        return 1;
    if (overlay_check_remove(from) != 0)
        return -1;
    if ((to->kind == PLACE_ABSENT ? overlay_check_create(to) : overlay_check_remove(to)) != 0)
        return -1;
    bool replaces = to->kind != PLACE_ABSENT;
    if (replaces && S_ISDIR(from->mode) != S_ISDIR(to->mode))
        return files_fail(S_ISDIR(from->mode) ? ENOTDIR : EISDIR);
    /* A directory that moves has another "..": it is written. */
    if (S_ISDIR(from->mode) && !is_same_folder(from, to) &&
        raw_access(from->kind == PLACE_COPY ? from->copy : from->path, W_OK) != 0)
        return -1;
    if (replaces && S_ISDIR(to->mode)) {
        int empty = listing_is_empty(to);
        if (empty <= 0)
            return empty < 0 ? -1 : files_fail(ENOTEMPTY);
    }
    return 0;
}

static int
rename_place(struct place *from, struct place *to, unsigned flags)
{
    int saved = errno;
    if ((flags & ~(unsigned)RENAME_NOREPLACE) != 0)
        return files_fail(EINVAL);
    int nothing = check_renaming(from, to, flags);
    if (nothing != 0)
        return nothing < 0 ? -1 : 0;
    if (overlay_make_parents(to) != 0 || listing_copy_up(from) != 0)
        return -1;
    if (hide_real(from) != 0)
        return -1;
    /* A directory would be seen together with the real one that it replaces. */
    if (S_ISDIR(from->mode) && hide_real(to) != 0)
        return -1;
    if (raw_rename(from->copy, to->copy, 0) != 0)
        return -1;
    errno = saved;
    return 0;
}

int
renameat2(int olddirfd, const char *old, int newdirfd, const char *path, unsigned flags)
{
    struct place from, to;
    others_keep(olddirfd, old, PLACE_ENTRY, OTHERS_FILE | OTHERS_TREE);
    others_keep(newdirfd, path, PLACE_ENTRY, OTHERS_ABSENCE | OTHERS_FILE | OTHERS_TREE);
    if (place_resolve(olddirfd, old, PLACE_ENTRY, &from) != 0 || place_resolve(newdirfd, path, PLACE_ENTRY, &to) != 0)
        return -1;
    if (from.kind == PLACE_PASS && to.kind == PLACE_PASS) {
        place_use_real(&from, &olddirfd, &old);
        place_use_real(&to, &newdirfd, &path);
        return flags == 0 ? REAL(renameat)(olddirfd, old, newdirfd, path)
                          : REAL(renameat2)(olddirfd, old, newdirfd, path, flags);
    }
    if (from.kind == PLACE_PASS || to.kind == PLACE_PASS)
        return files_fail(EXDEV); /* as between file systems: the program copies it */
    return rename_place(&from, &to, flags);
}

int
renameat(int olddirfd, const char *old, int newdirfd, const char *path)
{
    return renameat2(olddirfd, old, newdirfd, path, 0);
}

int
rename(const char *old, const char *path)
{
    if (files_config() == NULL && files_others()[0] == '\0')
        return REAL(rename)(old, path);
    return renameat2(AT_FDCWD, old, AT_FDCWD, path, 0);
}

/*
 * hooks_names.c - calls that make, remove and rename entries of directories.
 *
 * Each decides what the kernel would answer in reality, then does it in FILES_WRITTEN, and marks what is really there
 * as removed. Of special files only a FIFO is made in the overlay; a real one is the real one.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <errno.h>
#include <string.h>

static int
fail(int error)
{
    errno = error;
    return -1;
}

static bool
is_special(mode_t mode)
{
    return !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode);
}

static bool
is_left_alone(const struct place *place)
{
    return place->kind == PLACE_PASS || (place->kind == PLACE_REAL && is_special(place->mode));
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
        return fail(ENOENT);
    if (place->last != LAST_NAME)
        return fail(EISDIR);
    if (place->ends_in_slash)
        return fail(S_ISDIR(place->mode) ? EISDIR : ENOTDIR);
    if (overlay_check_remove(place) != 0)
        return -1;
    if (S_ISDIR(place->mode))
        return fail(EISDIR);
    if (hide_real(place) != 0)
        return -1;
    errno = saved;
    return place->kind == PLACE_COPY ? raw_unlink(place->copy) : 0;
}

static int
remove_directory(struct place *place)
{
    int saved = errno;
    if (place->kind == PLACE_ABSENT)
        return fail(ENOENT);
    if (place->last == LAST_DOT)
        return fail(EINVAL);
    if (place->last == LAST_DOTDOT)
        return fail(ENOTEMPTY);
    if (overlay_check_remove(place) != 0)
        return -1;
    if (!S_ISDIR(place->mode))
        return fail(ENOTDIR);
    int empty = listing_is_empty(place);
    if (empty <= 0)
        return empty < 0 ? -1 : fail(ENOTEMPTY);
    if (hide_real(place) != 0)
        return -1;
    if (raw_rmdir(place->copy) != 0 && (errno != ENOENT || place->kind == PLACE_COPY))
        return -1;
    errno = saved;
    return 0;
}

int
unlinkat(int dirfd, const char *path, int flags)
{
    struct place place;
    if (place_resolve(dirfd, path, PLACE_ENTRY, &place) != 0)
        return -1;
    if (is_left_alone(&place) && (flags & AT_REMOVEDIR) == 0) {
        place_use_real(&place, &dirfd, &path);
        return REAL(unlinkat)(dirfd, path, flags);
    }
    if (place.kind == PLACE_PASS) {
        place_use_real(&place, &dirfd, &path);
        return REAL(unlinkat)(dirfd, path, flags);
    }
    if ((flags & ~AT_REMOVEDIR) != 0)
        return fail(EINVAL);
    return (flags & AT_REMOVEDIR) != 0 ? remove_directory(&place) : remove_file(&place);
}

int
unlink(const char *path)
{
    struct place place;
    int dirfd = AT_FDCWD;
    if (place_resolve(dirfd, path, PLACE_ENTRY, &place) != 0)
        return -1;
    if (!is_left_alone(&place))
        return remove_file(&place);
    place_use_real(&place, &dirfd, &path);
    return REAL(unlink)(path);
}

int
rmdir(const char *path)
{
    struct place place;
    int dirfd = AT_FDCWD;
    if (place_resolve(dirfd, path, PLACE_ENTRY, &place) != 0)
        return -1;
    if (place.kind != PLACE_PASS)
        return remove_directory(&place);
    place_use_real(&place, &dirfd, &path);
    return REAL(rmdir)(path);
}

int
remove(const char *path)
{
    struct place place;
    int dirfd = AT_FDCWD;
    if (place_resolve(dirfd, path, PLACE_ENTRY, &place) != 0)
        return -1;
    if (!is_left_alone(&place))
        return S_ISDIR(place.mode) ? remove_directory(&place) : remove_file(&place);
    place_use_real(&place, &dirfd, &path);
    return REAL(remove)(path);
}

/* ---- making ---- */

/* 1: *dirfd and *path are where to make it; 0: they are as the program gave them; -1 with errno. */
static int
prepare_making(int *dirfd, const char **path, bool is_directory, struct place *place)
{
    int saved = errno;
    if (place_resolve(*dirfd, *path, PLACE_ENTRY, place) != 0)
        return -1;
    if (place->kind == PLACE_PASS) {
        place_use_real(place, dirfd, path);
        return 0;
    }
    if (place->kind != PLACE_ABSENT)
        return fail(EEXIST);
    if (place->ends_in_slash && !is_directory)
        return fail(ENOENT);
    if (overlay_prepare_create(place) != 0)
        return -1;
    place_use_copy(place, dirfd, path);
    errno = saved;
    return 1;
}

int
mkdir(const char *path, mode_t mode)
{
    struct place place;
    int dirfd = AT_FDCWD;
    return prepare_making(&dirfd, &path, true, &place) < 0 ? -1 : REAL(mkdir)(path, mode);
}

int
mkdirat(int dirfd, const char *path, mode_t mode)
{
    struct place place;
    return prepare_making(&dirfd, &path, true, &place) < 0 ? -1 : REAL(mkdirat)(dirfd, path, mode);
}

int
symlink(const char *target, const char *path)
{
    struct place place;
    int dirfd = AT_FDCWD;
    return prepare_making(&dirfd, &path, false, &place) < 0 ? -1 : REAL(symlink)(target, path);
}

int
symlinkat(const char *target, int dirfd, const char *path)
{
    struct place place;
    return prepare_making(&dirfd, &path, false, &place) < 0 ? -1 : REAL(symlinkat)(target, dirfd, path);
}

int
mkfifo(const char *path, mode_t mode)
{
    struct place place;
    int dirfd = AT_FDCWD;
    return prepare_making(&dirfd, &path, false, &place) < 0 ? -1 : REAL(mkfifo)(path, mode);
}

int
mkfifoat(int dirfd, const char *path, mode_t mode)
{
    struct place place;
    return prepare_making(&dirfd, &path, false, &place) < 0 ? -1 : REAL(mkfifoat)(dirfd, path, mode);
}

int
mknod(const char *path, mode_t mode, dev_t device)
{
    struct place place;
    int dirfd = AT_FDCWD;
    return prepare_making(&dirfd, &path, false, &place) < 0 ? -1 : REAL(mknod)(path, mode, device);
}

int
mknodat(int dirfd, const char *path, mode_t mode, dev_t device)
{
    struct place place;
    return prepare_making(&dirfd, &path, false, &place) < 0 ? -1 : REAL(mknodat)(dirfd, path, mode, device);
}

int
__xmknod(int version, const char *path, mode_t mode, dev_t *device)
{
    struct place place;
    int dirfd = AT_FDCWD;
    return prepare_making(&dirfd, &path, false, &place) < 0 ? -1 : REAL(__xmknod)(version, path, mode, device);
}

int
__xmknodat(int version, int dirfd, const char *path, mode_t mode, dev_t *device)
{
    struct place place;
    return prepare_making(&dirfd, &path, false, &place) < 0 ? -1 : REAL(__xmknodat)(version, dirfd, path, mode, device);
}

/* A second name, `place`, for the file at `from`. */
static int
link_to(struct place *from, struct place *place)
{
    int saved = errno;
    if (place->kind != PLACE_ABSENT)
        return fail(EEXIST);
    if (place->ends_in_slash)
        return fail(ENOENT);
    if (overlay_check_create(place) != 0)
        return -1;
    if (S_ISDIR(from->mode))
        return fail(EPERM);
    if (overlay_make_parents(place) != 0 || listing_copy_up(from) != 0)
        return -1;
    errno = saved;
    return raw_link(from->copy, place->copy);
}

int
linkat(int olddirfd, const char *old, int newdirfd, const char *path, int flags)
{
    struct place from, place;
    if (place_resolve(olddirfd, old, PLACE_FOLLOW_UNLESS((flags & AT_SYMLINK_FOLLOW) == 0), &from) != 0)
        return -1;
    if (from.kind == PLACE_ABSENT)
        return fail(ENOENT);
    if (place_resolve(newdirfd, path, PLACE_ENTRY, &place) != 0)
        return -1;
    if (from.kind == PLACE_PASS) {
        /* Perhaps an unnamed file, by its descriptor. */
        if (place.kind == PLACE_ABSENT) {
            if (overlay_prepare_create(&place) != 0)
                return -1;
            place_use_copy(&place, &newdirfd, &path);
        } else if (place.kind != PLACE_PASS) {
            return fail(EEXIST);
        } else {
            place_use_real(&place, &newdirfd, &path);
        }
        place_use_real(&from, &olddirfd, &old);
        return REAL(linkat)(olddirfd, old, newdirfd, path, flags);
    }
    return place.kind == PLACE_PASS ? fail(EXDEV) : link_to(&from, &place);
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

/* A directory that moves has another "..": it is written. */
static int
check_moving(const struct place *place)
{
    if (!S_ISDIR(place->mode))
        return 0;
    return raw_access(place->kind == PLACE_COPY ? place->copy : place->path, W_OK);
}

/* What the kernel has against it; 1: nothing is to be done. */
static int
check_renaming(const struct place *from, const struct place *to, unsigned flags)
{
    const char *below;
    if (from->last != LAST_NAME)
        return fail(EBUSY);
    if (to->last != LAST_NAME)
        return fail((flags & RENAME_NOREPLACE) != 0 ? EEXIST : EBUSY);
    if (from->kind == PLACE_ABSENT)
        return fail(ENOENT);
    if ((flags & RENAME_EXCHANGE) != 0 && to->kind == PLACE_ABSENT)
        return fail(ENOENT);
    if ((flags & RENAME_NOREPLACE) != 0 && to->kind != PLACE_ABSENT)
        return fail(EEXIST);
    if (!S_ISDIR(from->mode) && (from->ends_in_slash || (to->ends_in_slash && (flags & RENAME_EXCHANGE) == 0)))
        return fail(ENOTDIR);
    if ((flags & RENAME_EXCHANGE) != 0 && !S_ISDIR(to->mode) && to->ends_in_slash)
        return fail(ENOTDIR);
    if (S_ISDIR(from->mode) && (below = files_below(to->path, from->path)) != NULL && *below != '\0')
        return fail(EINVAL);
    if ((below = files_below(from->path, to->path)) != NULL && *below != '\0')
        return fail((flags & RENAME_EXCHANGE) != 0 ? EINVAL : ENOTEMPTY);
    if (is_same_file(from, to))
        return 1;
    if (overlay_check_remove(from) != 0)
        return -1;
    if ((to->kind == PLACE_ABSENT ? overlay_check_create(to) : overlay_check_remove(to)) != 0)
        return -1;
    bool exchange = (flags & RENAME_EXCHANGE) != 0, replaces = to->kind != PLACE_ABSENT && !exchange;
    if (replaces && S_ISDIR(from->mode) != S_ISDIR(to->mode))
        return fail(S_ISDIR(from->mode) ? ENOTDIR : EISDIR);
    if (!is_same_folder(from, to) && (check_moving(from) != 0 || (exchange && check_moving(to) != 0)))
        return -1;
    if (replaces && S_ISDIR(to->mode)) {
        int empty = listing_is_empty(to);
        if (empty <= 0)
            return empty < 0 ? -1 : fail(ENOTEMPTY);
    }
    return 0;
}

static int
rename_place(struct place *from, struct place *to, unsigned flags)
{
    int saved = errno;
    if ((flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0 || flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
        return fail(EINVAL);
    int nothing = check_renaming(from, to, flags);
    if (nothing != 0)
        return nothing < 0 ? -1 : 0;
    bool exchange = (flags & RENAME_EXCHANGE) != 0;
    if (overlay_make_parents(to) != 0 || listing_copy_up(from) != 0 || (exchange && listing_copy_up(to) != 0))
        return -1;
    if (hide_real(from) != 0)
        return -1;
    /* A directory would be seen together with the real one that it replaces. */
    if ((S_ISDIR(from->mode) || exchange) && hide_real(to) != 0)
        return -1;
    if (raw_rename(from->copy, to->copy, exchange ? RENAME_EXCHANGE : 0) != 0)
        return -1;
    errno = saved;
    return 0;
}

/* 1: done, or refused (*result); 0: the call is for the real function. */
static int
prepare_renaming(int *olddirfd, const char **old, int *newdirfd, const char **path, struct place *from,
                 struct place *to, unsigned flags, int *result)
{
    *result = -1;
    if (place_resolve(*olddirfd, *old, PLACE_ENTRY, from) != 0 || place_resolve(*newdirfd, *path, PLACE_ENTRY, to) != 0)
        return 1;
    if (from->kind == PLACE_PASS && to->kind == PLACE_PASS) {
        place_use_real(from, olddirfd, old);
        place_use_real(to, newdirfd, path);
        return 0;
    }
    if (from->kind == PLACE_PASS || to->kind == PLACE_PASS)
        *result = fail(EXDEV); /* as between file systems: the program copies it */
    else
        *result = rename_place(from, to, flags);
    return 1;
}

int
rename(const char *old, const char *path)
{
    struct place from, to;
    int olddirfd = AT_FDCWD, newdirfd = AT_FDCWD, result;
    return prepare_renaming(&olddirfd, &old, &newdirfd, &path, &from, &to, 0, &result) ? result
                                                                                       : REAL(rename)(old, path);
}

int
renameat(int olddirfd, const char *old, int newdirfd, const char *path)
{
    struct place from, to;
    int result;
    return prepare_renaming(&olddirfd, &old, &newdirfd, &path, &from, &to, 0, &result)
               ? result
               : REAL(renameat)(olddirfd, old, newdirfd, path);
}

int
renameat2(int olddirfd, const char *old, int newdirfd, const char *path, unsigned flags)
{
    struct place from, to;
    int result;
    return prepare_renaming(&olddirfd, &old, &newdirfd, &path, &from, &to, flags, &result)
               ? result
               : REAL(renameat2)(olddirfd, old, newdirfd, path, flags);
}

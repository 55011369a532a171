/*
 * hooks_open.c - calls that open a file by its name, and truncate().
 *
 * A file that may be written afterwards is copied first, unless the call empties it; what the program may not do to the
 * real file, or in its folder, fails as it would there. The call itself is then the program's own, on the copy.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <spawn.h>
#include <stdarg.h>

static bool
ends_in_slash(const char *path)
{
    size_t length = path != NULL ? strlen(path) : 0;
    return length > 0 && path[length - 1] == '/';
}

/* The file is there. */
static int
prepare_existing(int *dirfd, const char **path, int flags, struct place *place)
{
    int mode = flags & O_ACCMODE;
    if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0)
        return files_fail(EEXIST);
    if ((flags & O_DIRECTORY) != 0 && !S_ISDIR(place->mode))
        return files_fail(ENOTDIR);
    if (S_ISLNK(place->mode))
        return files_fail(ELOOP); /* O_NOFOLLOW */
    if (S_ISDIR(place->mode))
        return files_fail(EISDIR); /* of O_TMPFILE: as where the file system has no unnamed files */
    if (place->kind == PLACE_REAL) {
        if (!S_ISREG(place->mode) || (mode == O_RDONLY && (flags & O_TRUNC) == 0))
            return place_use_real(place, dirfd, path);
        int needs = mode == O_WRONLY ? W_OK : R_OK | W_OK;
        if (raw_access(place->path, needs) != 0 || overlay_copy_up(place, (flags & O_TRUNC) == 0) != 0)
            return -1;
    }
    return place_use_copy(place, dirfd, path);
}

static bool
is_random(const char *path)
{
    return path != NULL && (strcmp(path, "/dev/urandom") == 0 || strcmp(path, "/dev/random") == 0);
}

/* A call that may write. */
static void
keep_for_others(int dirfd, const char *path, int flags)
{
    bool is_new = (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0;
    bool changes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
    unsigned kept = (flags & O_CREAT) != 0 ? OTHERS_ABSENCE : 0;
    if (changes && !is_new)
        kept |= OTHERS_FILE;
    others_keep(dirfd, path, PLACE_FOLLOW_UNLESS(is_new || (flags & O_NOFOLLOW) != 0), kept);
}

int
open_prepare(int *dirfd, const char **path, int flags, struct place *place)
{
    bool creates = (flags & O_CREAT) != 0;
    bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
    enum place_follow follow = PLACE_FOLLOW_UNLESS((flags & O_NOFOLLOW) != 0);
    int saved = errno;
    if (files_date() != NULL && !writes && is_random(*path) && caller_is_programs(*path, NULL) &&
        date_make_random(place->copy)) {
        *path = place->copy;
        return 0;
    }
    if ((flags & O_PATH) == 0 && writes)
        keep_for_others(*dirfd, *path, flags);
    if (files_config() == NULL)
        return 0;
    if ((flags & O_PATH) != 0 || !writes)
        return place_read(dirfd, path, follow, place);
    if (creates && ends_in_slash(*path)) {
        if (place_resolve(*dirfd, *path, PLACE_ENTRY, place) != 0)
            return -1;
        if (place->kind != PLACE_PASS)
            return files_fail(EISDIR);
    }
    if (creates && (flags & O_EXCL) != 0)
        follow = PLACE_NO_FOLLOW;
    if (place_resolve(*dirfd, *path, follow, place) != 0)
        return -1;
    if (place->kind == PLACE_PASS)
        return place_use_real(place, dirfd, path);
    if (place->kind != PLACE_ABSENT) {
        if (prepare_existing(dirfd, path, flags, place) != 0)
            return -1;
    } else if (!creates) {
        return files_fail(ENOENT);
    } else if (place->ends_in_slash) {
        return files_fail(EISDIR); /* of a link's target */
    } else {
        if (overlay_prepare_create(place) != 0)
            return -1;
        place_use_copy(place, dirfd, path);
    }
    errno = saved;
    return 0;
}

/* Opens `path`, from the folder `from`, with the flags `how`; the call behind it gets the folder `at`. `before`
 * declares what else it gets. */
#define HOOK_OPENS(name, large, from, how, declared, before, given)                     \
    ALSO(large, name)                                                                   \
    int name declared                                                                   \
    {                                                                                   \
        struct place place;                                                             \
        const char *asked = path;                                                       \
        int at = from, opened = how;                                                    \
        before;                                                                         \
        int fd = open_prepare(&at, &path, opened, &place) != 0 ? -1 : REAL(name) given; \
        note_file(from, asked, fd, opened);                                             \
        return fd;                                                                      \
    }
#define TAKE_MODE                                                                 \
    va_list args;                                                                 \
    va_start(args, flags);                                                        \
    bool takes_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; \
    mode_t mode = takes_mode ? va_arg(args, mode_t) : 0;                          \
    va_end(args)
#define CREATES (O_WRONLY | O_CREAT | O_TRUNC)
HOOK_OPENS(open, open64, AT_FDCWD, flags, (const char *path, int flags, ...), TAKE_MODE, (path, flags, mode))
HOOK_OPENS(openat, openat64, dirfd, flags, (int dirfd, const char *path, int flags, ...), TAKE_MODE,
           (at, path, flags, mode))
HOOK_OPENS(__open_2, __open64_2, AT_FDCWD, flags, (const char *path, int flags), (void)0, (path, flags))
HOOK_OPENS(__openat_2, __openat64_2, dirfd, flags, (int dirfd, const char *path, int flags), (void)0, (at, path, flags))
HOOK_OPENS(creat, creat64, AT_FDCWD, CREATES, (const char *path, mode_t mode), (void)0, (path, mode))

int
truncate(const char *path, off_t length)
{
    struct place place;
    int dirfd = AT_FDCWD;
    return open_prepare(&dirfd, &path, O_WRONLY, &place) != 0 ? -1 : REAL(truncate)(path, length);
}
ALSO(truncate64, truncate)

/* The file is prepared now; a child opens it later, by the same name. */
int
posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int fd, const char *path, int flags, mode_t mode)
{
    struct place place;
    int dirfd = AT_FDCWD, saved = errno;
    if (open_prepare(&dirfd, &path, flags, &place) != 0) {
        /* The spawn fails as it would: the path leads to nothing. */
        int error = errno;
        errno = saved;
        return error;
    }
    return REAL(posix_spawn_file_actions_addopen)(actions, fd, path, flags, mode);
}

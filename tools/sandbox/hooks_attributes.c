/*
 * hooks_attributes.c - calls that change mode, owner, times and attributes: of the copy, which is made for it.
 *
 * A real directory keeps its own: the call succeeds, if the program may do it, and has no effect. So it does by a
 * descriptor that was opened for reading, which leads to the real file.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <sys/xattr.h>
#include <utime.h>

enum { CHANGE_FAILS = -1, CHANGE_CALL, CHANGE_IGNORED };

/* Whether the program could change it; `writers_may`: it need not own the file, as for setting its times to now. */
static int
check_owner(const struct place *place, bool writers_may)
{
    struct stat found;
    if (raw_lstat(place->path, &found) != 0)
        return -1;
    uid_t user = geteuid();
    if (user == 0 || user == found.st_uid || (writers_may && raw_access(place->path, W_OK) == 0))
        return 0;
    return files_fail(writers_may ? EACCES : EPERM);
}

/* CHANGE_CALL: *dirfd and *path are what to change. */
static int
prepare_attributes(int *dirfd, const char **path, enum place_follow follow, bool writers_may, struct place *place)
{
    int saved = errno;
    if (place_resolve(*dirfd, *path, follow, place) != 0)
        return CHANGE_FAILS;
    if (place->kind == PLACE_ABSENT)
        return files_fail(ENOENT);
    if (place->kind == PLACE_REAL && (S_ISDIR(place->mode) || S_ISREG(place->mode) || S_ISLNK(place->mode))) {
        if (check_owner(place, writers_may) != 0)
            return CHANGE_FAILS;
        if (S_ISDIR(place->mode))
            return CHANGE_IGNORED;
        if (overlay_copy_up(place, true) != 0)
            return CHANGE_FAILS;
    }
    (void)(place->kind == PLACE_COPY ? place_use_copy : place_use_real)(place, dirfd, path);
    errno = saved;
    return CHANGE_CALL;
}

/* Whether a descriptor that was opened for reading leads to a real file or directory, which stays as it is. */
static bool
is_real_file(int fd)
{
    char real[PATH_MAX];
    struct stat opened;
    int saved = errno;
    const struct files_config *config = files_config();
    bool is_real = config != NULL && place_of_fd(fd, real) && files_below(real, config->written) == NULL &&
                   !files_is_excepted(real) && raw_fstat(fd, &opened) == 0 &&
                   (S_ISREG(opened.st_mode) || S_ISDIR(opened.st_mode));
    errno = saved;
    return is_real;
}

/* The call behind it gets the folder `at`. */
#define HOOK_CHANGE_AT(name, from, follow, writers_may, declared, given)                     \
    int name declared                                                                        \
    {                                                                                        \
        struct place place;                                                                  \
        int at = from, answer = prepare_attributes(&at, &path, follow, writers_may, &place); \
        return answer == CHANGE_CALL ? REAL(name) given : answer == CHANGE_IGNORED ? 0 : -1; \
    }
#define HOOK_CHANGE(name, ...) HOOK_CHANGE_AT(name, AT_FDCWD, __VA_ARGS__)

#define HOOK_CHANGE_FD(name, declared, given)           \
    int name declared                                   \
    {                                                   \
        return is_real_file(fd) ? 0 : REAL(name) given; \
    }

HOOK_CHANGE(chmod, PLACE_FOLLOW, false, (const char *path, mode_t mode), (path, mode))
HOOK_CHANGE(lchmod, PLACE_NO_FOLLOW, false, (const char *path, mode_t mode), (path, mode))
HOOK_CHANGE_AT(fchmodat, dirfd, FOLLOWS(flags), false, (int dirfd, const char *path, mode_t mode, int flags),
               (at, path, mode, flags))
HOOK_CHANGE_FD(fchmod, (int fd, mode_t mode), (fd, mode))

HOOK_CHANGE(chown, PLACE_FOLLOW, false, (const char *path, uid_t owner, gid_t group), (path, owner, group))
HOOK_CHANGE(lchown, PLACE_NO_FOLLOW, false, (const char *path, uid_t owner, gid_t group), (path, owner, group))
HOOK_CHANGE_AT(fchownat, dirfd, FOLLOWS(flags), false,
               (int dirfd, const char *path, uid_t owner, gid_t group, int flags), (at, path, owner, group, flags))
HOOK_CHANGE_FD(fchown, (int fd, uid_t owner, gid_t group), (fd, owner, group))

HOOK_CHANGE(utime, PLACE_FOLLOW, times == NULL, (const char *path, const struct utimbuf *times), (path, times))
HOOK_CHANGE(utimes, PLACE_FOLLOW, times == NULL, (const char *path, const struct timeval times[2]), (path, times))
HOOK_CHANGE(lutimes, PLACE_NO_FOLLOW, times == NULL, (const char *path, const struct timeval times[2]), (path, times))
HOOK_CHANGE_FD(futimens, (int fd, const struct timespec times[2]), (fd, times))

HOOK_CHANGE_FD(futimes, (int fd, const struct timeval times[2]), (fd, times))

/* Without a path they are about the descriptor. */
int
utimensat(int dirfd, const char *path, const struct timespec times[2], int flags)
{
    struct place place;
    if (files_config() == NULL)
        return REAL(utimensat)(dirfd, path, times, flags);
    const char *volatile given = path; /* declared as never NULL, and yet it may be in the kernel's call */
    if (given == NULL || (*given == '\0' && (flags & AT_EMPTY_PATH) != 0))
        return dirfd == AT_FDCWD ? REAL(utimensat)(dirfd, path, times, flags) : futimens(dirfd, times);
    bool now = times == NULL || (times[0].tv_nsec == UTIME_NOW && times[1].tv_nsec == UTIME_NOW);
    int answer = prepare_attributes(&dirfd, &path, FOLLOWS(flags), now, &place);
    return answer == CHANGE_CALL ? REAL(utimensat)(dirfd, path, times, flags) : answer == CHANGE_IGNORED ? 0 : -1;
}

int
futimesat(int dirfd, const char *path, const struct timeval times[2])
{
    struct place place;
    const char *volatile given = path;
    if (files_config() == NULL)
        return REAL(futimesat)(dirfd, path, times);
    if (given == NULL)
        return futimes(dirfd, times);
    int answer = prepare_attributes(&dirfd, &path, PLACE_FOLLOW, times == NULL, &place);
    return answer == CHANGE_CALL ? REAL(futimesat)(dirfd, path, times) : answer == CHANGE_IGNORED ? 0 : -1;
}

HOOK_CHANGE(setxattr, PLACE_FOLLOW, true,
            (const char *path, const char *name, const void *value, size_t size, int flags),
            (path, name, value, size, flags))
HOOK_CHANGE(lsetxattr, PLACE_NO_FOLLOW, true,
            (const char *path, const char *name, const void *value, size_t size, int flags),
            (path, name, value, size, flags))
HOOK_CHANGE_FD(fsetxattr, (int fd, const char *name, const void *value, size_t size, int flags),
               (fd, name, value, size, flags))
HOOK_CHANGE(removexattr, PLACE_FOLLOW, true, (const char *path, const char *name), (path, name))
HOOK_CHANGE(lremovexattr, PLACE_NO_FOLLOW, true, (const char *path, const char *name), (path, name))
HOOK_CHANGE_FD(fremovexattr, (int fd, const char *name), (fd, name))

/*
 * hooks_stat.c - calls that ask about a path and change nothing: they are made with the path of what the program sees.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

/* Those that have another one for large files. */
#define HOOK_AT_64(name, ...)   ALSO(name##64, name) HOOK_AT(int, name, __VA_ARGS__)
#define HOOK_PATH_64(name, ...) HOOK_AT_64(name, AT_FDCWD, __VA_ARGS__)

HOOK_PATH_64(stat, PLACE_FOLLOW, (const char *path, struct stat *found), (path, found))
HOOK_PATH_64(lstat, PLACE_NO_FOLLOW, (const char *path, struct stat *found), (path, found))
HOOK_AT_64(fstatat, dirfd, FOLLOWS(flags), (int dirfd, const char *path, struct stat *found, int flags),
           (at, path, found, flags))
HOOK_AT(int, statx, dirfd, FOLLOWS(flags), (int dirfd, const char *path, int flags, unsigned mask, struct statx *found),
        (at, path, flags, mask, found))

HOOK_PATH_64(__xstat, PLACE_FOLLOW, (int version, const char *path, struct stat *found), (version, path, found))
HOOK_PATH_64(__lxstat, PLACE_NO_FOLLOW, (int version, const char *path, struct stat *found), (version, path, found))
HOOK_AT_64(__fxstatat, dirfd, FOLLOWS(flags), (int version, int dirfd, const char *path, struct stat *found, int flags),
           (version, at, path, found, flags))

HOOK_PATH(int, access, PLACE_FOLLOW, (const char *path, int how), (path, how))
HOOK_AT(int, faccessat, dirfd, FOLLOWS(flags), (int dirfd, const char *path, int how, int flags),
        (at, path, how, flags))
HOOK_PATH(int, euidaccess, PLACE_FOLLOW, (const char *path, int how), (path, how))
HOOK_PATH(int, eaccess, PLACE_FOLLOW, (const char *path, int how), (path, how))

HOOK_PATH(ssize_t, readlink, PLACE_NO_FOLLOW, (const char *path, char *target, size_t size), (path, target, size))
HOOK_AT(ssize_t, readlinkat, dirfd, PLACE_NO_FOLLOW, (int dirfd, const char *path, char *target, size_t size),
        (at, path, target, size))
HOOK_PATH(ssize_t, __readlink_chk, PLACE_NO_FOLLOW, (const char *path, char *target, size_t size, size_t room),
          (path, target, size, room))
HOOK_AT(ssize_t, __readlinkat_chk, dirfd, PLACE_NO_FOLLOW,
        (int dirfd, const char *path, char *target, size_t size, size_t room), (at, path, target, size, room))

HOOK_PATH_64(statfs, PLACE_FOLLOW, (const char *path, struct statfs *found), (path, found))
HOOK_PATH_64(statvfs, PLACE_FOLLOW, (const char *path, struct statvfs *found), (path, found))

HOOK_PATH(ssize_t, getxattr, PLACE_FOLLOW, (const char *path, const char *name, void *value, size_t size),
          (path, name, value, size))
HOOK_PATH(ssize_t, lgetxattr, PLACE_NO_FOLLOW, (const char *path, const char *name, void *value, size_t size),
          (path, name, value, size))
HOOK_PATH(ssize_t, listxattr, PLACE_FOLLOW, (const char *path, char *list, size_t size), (path, list, size))
HOOK_PATH(ssize_t, llistxattr, PLACE_NO_FOLLOW, (const char *path, char *list, size_t size), (path, list, size))

/* ---- realpath ---- */

/* The canonical path that the program sees, if that is another than libc would find: 1; or 0, or -1 with errno. `room`
 * bytes are at `resolved`, unless it is NULL. */
static int
resolve(const char *path, char *resolved, size_t room, char **result)
{
    struct place place;
    if (files_config() == NULL || !overlay_has_content())
        return 0;
    if (place_resolve(AT_FDCWD, path, PLACE_FOLLOW, &place) != 0)
        return -1;
    if (place.kind == PLACE_ABSENT)
        return files_fail(ENOENT);
    if (place.kind != PLACE_COPY && !place.steered)
        return 0;
    size_t size = strlen(place.path) + 1;
    if (size > room)
        return files_fail(ENAMETOOLONG);
    if (resolved == NULL)
        resolved = malloc(size);
    if (resolved == NULL)
        return -1;
    *result = memcpy(resolved, place.path, size);
    return 1;
}

char *
realpath(const char *path, char *resolved)
{
    char *result = NULL;
    int answer = resolve(path, resolved, PATH_MAX, &result);
    return answer == 0 ? REAL(realpath)(path, resolved) : result;
}

char *
__realpath_chk(const char *path, char *resolved, size_t room)
{
    char *result = NULL;
    int answer = resolve(path, resolved, room < PATH_MAX ? room : PATH_MAX, &result);
    return answer == 0 ? REAL(__realpath_chk)(path, resolved, room) : result;
}

char *
canonicalize_file_name(const char *path)
{
    char *result = NULL;
    int answer = resolve(path, NULL, PATH_MAX, &result);
    return answer == 0 ? REAL(canonicalize_file_name)(path) : result;
}

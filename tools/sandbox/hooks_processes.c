/*
 * hooks_processes.c - the current folder, and starting programs that the run has made.
 *
 * A process enters a directory of the run's own where it lies; getcwd() returns the path that it has for the program.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <spawn.h>

HOOK_PATH(int, chdir, PLACE_FOLLOW, (const char *path), (path))

/* The current folder's path as the program has it, if it is the run's own. */
static bool
own_folder(char path[PATH_MAX])
{
    const struct files_config *config = files_config();
    int saved = errno;
    if (config == NULL || !overlay_has_content())
        return false;
    const char *below = syscall(SYS_getcwd, path, (size_t)PATH_MAX) > 0 ? files_below(path, config->written) : NULL;
    errno = saved;
    if (below == NULL || *below == '\0')
        return false;
    memmove(path, below, strlen(below) + 1);
    return true;
}

static char *
give_target(const char *path, char *target, size_t size)
{
    size_t needed = strlen(path) + 1;
    if (target != NULL && size == 0) {
        errno = EINVAL;
        return NULL;
    }
    if (size != 0 && size < needed) {
        errno = ERANGE;
        return NULL;
    }
    if (target == NULL)
        target = malloc(size != 0 ? size : needed);
    return target != NULL ? memcpy(target, path, needed) : NULL;
}

#define HOOK_FOLDER(name, declared, given, target, size)                              \
    char *name declared                                                               \
    {                                                                                 \
        char path[PATH_MAX];                                                          \
        return own_folder(path) ? give_target(path, target, size) : REAL(name) given; \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* programs call getwd() none the less */
HOOK_FOLDER(getcwd, (char *target, size_t size), (target, size), target, size)
HOOK_FOLDER(__getcwd_chk, (char *target, size_t size, size_t room), (target, size, room), target,
            size < room ? size : room)
HOOK_FOLDER(get_current_dir_name, (void), (), NULL, 0)
HOOK_FOLDER(getwd, (char *target), (target), target, PATH_MAX)
HOOK_FOLDER(__getwd_chk, (char *target, size_t room), (target, room), target, room)
#pragma GCC diagnostic pop

/* ---- programs ---- */

HOOK_PATH(int, execve, PLACE_FOLLOW, (const char *path, char *const arguments[], char *const environment[]),
          (path, arguments, environment))
HOOK_PATH(int, execv, PLACE_FOLLOW, (const char *path, char *const arguments[]), (path, arguments))

int
posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
            const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    struct place place;
    int dirfd = AT_FDCWD, saved = errno;
    if (place_read(&dirfd, &path, PLACE_FOLLOW, &place) != 0) {
        int error = errno;
        errno = saved;
        return error;
    }
    return REAL(posix_spawn)(pid, path, actions, attributes, arguments, environment);
}

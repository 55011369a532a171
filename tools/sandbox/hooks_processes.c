/*
 * hooks_processes.c - the current folder, and starting programs that the run has made.
 *
 * A process enters a directory of the run's own where it lies; getcwd() returns the path that it has for the program.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* `is_redirected`: `path` is one that leads into the overlay. */
#define HOOK_ENTERS(name, is_redirected, declared, given)                                     \
    int name declared                                                                         \
    {                                                                                         \
        struct place place;                                                                   \
        int dirfd = AT_FDCWD;                                                                 \
        bool fails = (is_redirected) && place_read(&dirfd, &path, PLACE_FOLLOW, &place) != 0; \
        return fails ? -1 : REAL(name) given;                                                 \
    }
HOOK_ENTERS(chdir, true, (const char *path), (path))

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
give(const char *path, char *target, size_t size)
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

#define HOOK_FOLDER(name, declared, given, target, size)                       \
    char *name declared                                                        \
    {                                                                          \
        char path[PATH_MAX];                                                   \
        return own_folder(path) ? give(path, target, size) : REAL(name) given; \
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

HOOK_ENTERS(execve, true, (const char *path, char *const arguments[], char *const environment[]),
            (path, arguments, environment))
HOOK_ENTERS(execv, true, (const char *path, char *const arguments[]), (path, arguments))
/* A name without a slash is looked for by libc, in real folders. */
HOOK_ENTERS(execvpe, strchr(path, '/') != NULL, (const char *path, char *const arguments[], char *const environment[]),
            (path, arguments, environment))
HOOK_ENTERS(execvp, strchr(path, '/') != NULL, (const char *path, char *const arguments[]), (path, arguments))

/* The arguments up to NULL as an array on the stack, for which the memory is the hook's. */
static size_t
count_arguments(const char *first, va_list args)
{
    size_t count = 0;
    for (const char *argument = first; argument != NULL; argument = va_arg(args, char *))
        ++count;
    return count;
}

static void
collect_arguments(char **arguments, const char *first, va_list args)
{
    *arguments = (char *)first;
    while (*arguments != NULL)
        *++arguments = va_arg(args, char *);
}

#define HOOK_EXECL(name, rest, call)                                 \
    int name(const char *path, const char *first, ...)               \
    {                                                                \
        va_list args;                                                \
        va_start(args, first);                                       \
        size_t count = count_arguments(first, args);                 \
        va_end(args);                                                \
        char **arguments = alloca((count + 1) * sizeof(*arguments)); \
        va_start(args, first);                                       \
        collect_arguments(arguments, first, args);                   \
        rest;                                                        \
        va_end(args);                                                \
        return call;                                                 \
    }
HOOK_EXECL(execl, (void)0, execv(path, arguments))
HOOK_EXECL(execlp, (void)0, execvp(path, arguments))
HOOK_EXECL(execle, char *const *environment = va_arg(args, char *const *), execve(path, arguments, environment))

#define HOOK_SPAWN(name, condition)                                                                   \
    int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,                 \
             const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) \
    {                                                                                                 \
        struct place place;                                                                           \
        int dirfd = AT_FDCWD, saved = errno;                                                          \
        if ((condition) && place_read(&dirfd, &path, PLACE_FOLLOW, &place) != 0) {                    \
            int error = errno;                                                                        \
            errno = saved;                                                                            \
            return error;                                                                             \
        }                                                                                             \
        return REAL(name)(pid, path, actions, attributes, arguments, environment);                    \
    }
HOOK_SPAWN(posix_spawn, true)
HOOK_SPAWN(posix_spawnp, strchr(path, '/') != NULL)

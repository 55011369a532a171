/*
 * hooks_streams.c - streams that libc opens by itself, and temporary files whose name libc makes up.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

/* As fopen() opens a file. An invalid mode counts as reading: libc refuses it. */
static int
flags_of(const char *mode)
{
    int flags = mode[0] == 'w'   ? O_WRONLY | O_CREAT | O_TRUNC
                : mode[0] == 'a' ? O_WRONLY | O_CREAT | O_APPEND
                                 : O_RDONLY;
    for (const char *more = mode + (*mode != '\0'); *more != '\0' && *more != ','; ++more) {
        if (*more == '+')
            flags = (flags & ~O_ACCMODE) | O_RDWR;
        else if (*more == 'x')
            flags |= O_EXCL;
    }
    return flags;
}

FILE *
fopen(const char *path, const char *mode)
{
    struct place place;
    const char *given = path;
    int dirfd = AT_FDCWD, flags = flags_of(mode);
    FILE *stream = open_prepare(&dirfd, &path, flags, &place) != 0 ? NULL : REAL(fopen)(path, mode);
    note_file(AT_FDCWD, given, stream != NULL ? fileno(stream) : -1, flags);
    return stream;
}
ALSO(fopen64, fopen)

FILE *
freopen(const char *path, const char *mode, FILE *stream)
{
    struct place place;
    int dirfd = AT_FDCWD;
    if (open_prepare(&dirfd, &path, flags_of(mode), &place) == 0)
        return REAL(freopen)(path, mode, stream);
    int error = errno;
    (void)fclose(stream); /* whatever becomes of it, the stream's old file is closed */
    errno = error;
    return NULL;
}
ALSO(freopen64, freopen)

/* ---- temporary files ---- */

/* What libc is to make a name of: `template`, or a copy of it in `place`, in the run's own folder. NULL with errno. */
static char *
prepare_temporary(char *template, struct place *place)
{
    int saved = errno;
    if (place_resolve(AT_FDCWD, template, PLACE_ENTRY, place) != 0)
        return NULL;
    if (place->kind == PLACE_PASS)
        return place->steered ? place->copy + files_config()->written_length : template;
    if (place->last != LAST_NAME || place->ends_in_slash) {
        errno = EINVAL;
        return NULL;
    }
    if (overlay_prepare_create(place) != 0)
        return NULL;
    errno = saved;
    return place->copy;
}

/* Copies the last name of `path`, which is as long as that of `template`. */
static void
take_name(char *template, const char *path)
{
    const char *slash = strrchr(template, '/');
    size_t length = strlen(slash != NULL ? slash + 1 : template);
    memmove(template + strlen(template) - length, path + strlen(path) - length, length);
}

#define HOOK_MAKE(name, declared, given)                  \
    ALSO(name##64, name)                                  \
    int name declared                                     \
    {                                                     \
        struct place place;                               \
        char *path = prepare_temporary(template, &place); \
        int made = path != NULL ? REAL(name) given : -1;  \
        if (made >= 0)                                    \
            take_name(template, path);                    \
        return made;                                      \
    }
HOOK_MAKE(mkstemp, (char *template), (path))
HOOK_MAKE(mkostemp, (char *template, int flags), (path, flags))
HOOK_MAKE(mkstemps, (char *template, int suffix), (path, suffix))
HOOK_MAKE(mkostemps, (char *template, int suffix, int flags), (path, suffix, flags))

char *
mkdtemp(char *template)
{
    struct place place;
    char *path = prepare_temporary(template, &place);
    if (path == NULL || REAL(mkdtemp)(path) == NULL)
        return NULL;
    take_name(template, path);
    return template;
}

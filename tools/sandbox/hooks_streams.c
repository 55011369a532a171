/*
 * hooks_streams.c - streams that libc opens by itself, and temporary files whose name libc makes up.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

#define HOOK_FOPEN(name)                                                                                \
    FILE *name(const char *path, const char *mode)                                                      \
    {                                                                                                   \
        struct place place;                                                                             \
        const char *given = path;                                                                       \
        int dirfd = AT_FDCWD, flags = flags_of(mode);                                                   \
        FILE *stream = open_prepare(&dirfd, &path, flags, &place) != 0 ? NULL : REAL(name)(path, mode); \
        note_file(AT_FDCWD, given, stream != NULL ? fileno(stream) : -1, flags);                        \
        return stream;                                                                                  \
    }
HOOK_FOPEN(fopen)
HOOK_FOPEN(fopen64)

/* Whatever becomes of it, the stream's old file is closed. */
static FILE *
close_failed(FILE *stream)
{
    int error = errno;
    (void)fclose(stream);
    errno = error;
    return NULL;
}

#define HOOK_FREOPEN(name)                                            \
    FILE *name(const char *path, const char *mode, FILE *stream)      \
    {                                                                 \
        struct place place;                                           \
        int dirfd = AT_FDCWD;                                         \
        if (open_prepare(&dirfd, &path, flags_of(mode), &place) != 0) \
            return close_failed(stream);                              \
        return REAL(name)(path, mode, stream);                        \
    }
HOOK_FREOPEN(freopen)
HOOK_FREOPEN(freopen64)

/* ---- temporary files ---- */

enum { LETTERS = 6, ATTEMPTS = 10000 };

static void
fill(char letters[LETTERS])
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    struct timespec now = {0, 0};
    raw_now(&now);
    unsigned long long number = (unsigned long long)now.tv_nsec * 1000003 + (unsigned long long)now.tv_sec * 65537 +
                                (unsigned long long)syscall(SYS_gettid);
    for (int i = 0; i < LETTERS; ++i, number /= sizeof(alphabet) - 1)
        letters[i] = alphabet[number % (sizeof(alphabet) - 1)];
}

/* Makes the file, or with flags of -1 the folder, that `template` becomes the name of. */
static int
make_temporary(char *template, int suffix, int flags)
{
    size_t length = strlen(template);
    int saved = errno;
    if (suffix < 0 || length < LETTERS + (size_t)suffix ||
        memcmp(template + length - (size_t)suffix - LETTERS, "XXXXXX", LETTERS) != 0)
        return files_fail(EINVAL);
    char *letters = template + length - (size_t)suffix - LETTERS;
    for (int attempt = 0; attempt < ATTEMPTS; ++attempt) {
        fill(letters);
        errno = saved;
        int made = flags == -1 ? mkdir(template, 0700)
                               : open(template, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL, 0600);
        if (made >= 0)
            return made;
        if (errno != EEXIST)
            break;
    }
    memcpy(letters, "XXXXXX", LETTERS);
    return -1;
}

#define HOOK_MAKE(name, declared, given, suffix, flags)                                             \
    int name declared                                                                               \
    {                                                                                               \
        return files_config() == NULL ? REAL(name) given : make_temporary(template, suffix, flags); \
    }
HOOK_MAKE(mkstemp, (char *template), (template), 0, 0)
HOOK_MAKE(mkstemp64, (char *template), (template), 0, 0)
HOOK_MAKE(mkostemp, (char *template, int flags), (template, flags), 0, flags)
HOOK_MAKE(mkostemp64, (char *template, int flags), (template, flags), 0, flags)
HOOK_MAKE(mkstemps, (char *template, int suffix), (template, suffix), suffix, 0)
HOOK_MAKE(mkstemps64, (char *template, int suffix), (template, suffix), suffix, 0)
HOOK_MAKE(mkostemps, (char *template, int suffix, int flags), (template, suffix, flags), suffix, flags)
HOOK_MAKE(mkostemps64, (char *template, int suffix, int flags), (template, suffix, flags), suffix, flags)

char *
mkdtemp(char *template)
{
    if (files_config() == NULL)
        return REAL(mkdtemp)(template);
    return make_temporary(template, 0, -1) == 0 ? template : NULL;
}

/*
 * hooks_directories.c - opendir() and what is called with its result.
 *
 * A directory that is only the run's own is read by libc. A real one is opened as it is, for its descriptor and
 * fstat(), and read from a listing that was made when it was opened, once anything was written. Listings are found by
 * their stream in a table without locks; as long as the table is empty a call costs one look at a number.
 */
#include "tools/sandbox/hooks.h"
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <glob.h>
#include <stdatomic.h>

enum { SLOTS = 1024 };

static struct slot {
    _Atomic(DIR *) stream;
    struct listing *listing; /* the stream's owner's: used by one thread at a time, as the stream is */
} slots[SLOTS];

static _Atomic unsigned slots_end; /* none is used from here */

static struct slot *
slot_of(const DIR *stream)
{
    unsigned end = atomic_load_explicit(&slots_end, memory_order_acquire);
    for (unsigned i = 0; i < end; ++i) {
        if (atomic_load_explicit(&slots[i].stream, memory_order_acquire) == stream)
            return &slots[i];
    }
    return NULL;
}

static bool
slot_take(DIR *stream, struct listing *listing)
{
    for (unsigned i = 0; i < SLOTS; ++i) {
        DIR *expected = NULL;
        if (!atomic_compare_exchange_strong(&slots[i].stream, &expected, stream))
            continue;
        slots[i].listing = listing;
        unsigned end = atomic_load(&slots_end);
        while (end <= i && !atomic_compare_exchange_weak(&slots_end, &end, i + 1))
            continue;
        return true;
    }
    errno = ENFILE;
    return false;
}

/* Gives the stream its listing if the place needs one; closes it if that fails. */
static DIR *
attach_place(DIR *stream, const struct place *place)
{
    int saved = errno;
    if (stream == NULL || place->kind != PLACE_REAL)
        return stream;
    struct listing *listing = listing_read(place);
    if (listing != NULL && slot_take(stream, listing)) {
        errno = saved;
        return stream;
    }
    int error = errno;
    listing_free(listing);
    (void)REAL(closedir)(stream);
    errno = error;
    return NULL;
}

DIR *
opendir(const char *path)
{
    struct place place = {.kind = PLACE_PASS};
    int dirfd = AT_FDCWD;
    if (place_read(&dirfd, &path, PLACE_FOLLOW, &place) != 0)
        return NULL;
    return attach_place(REAL(opendir)(path), &place);
}

DIR *
fdopendir(int fd)
{
    struct place place = {.kind = PLACE_PASS};
    int saved = errno;
    if (files_config() != NULL && overlay_has_content() && place_resolve(fd, ".", PLACE_FOLLOW, &place) != 0)
        place.kind = PLACE_PASS; /* it is hidden by now: what was opened is listed */
    errno = saved;
    return attach_place(REAL(fdopendir)(fd), &place);
}

int
closedir(DIR *stream)
{
    struct slot *slot = slot_of(stream);
    if (slot != NULL) {
        listing_free(slot->listing);
        slot->listing = NULL;
        atomic_store_explicit(&slot->stream, NULL, memory_order_release);
    }
    return REAL(closedir)(stream);
}

struct dirent *
readdir(DIR *stream)
{
    struct slot *slot = slot_of(stream);
    return slot != NULL ? listing_next(slot->listing) : REAL(readdir)(stream);
}
ALSO(readdir64, readdir)

void
rewinddir(DIR *stream)
{
    struct slot *slot = slot_of(stream);
    if (slot != NULL)
        (void)listing_again(slot->listing);
    else
        REAL(rewinddir)(stream);
}

/* ---- what libc offers above opendir(): its own opendir() sees directories as they are on the disk ---- */

/* Of a directory that is really there the real entries, without the run's own. */
typedef int scandir_filter(const struct dirent *entry);
typedef int scandir_order(const struct dirent **a, const struct dirent **b);

HOOK_PATH(int, scandir, PLACE_FOLLOW,
          (const char *path, struct dirent ***list, scandir_filter *filter, scandir_order *order),
          (path, list, filter, order))
ALSO(scandir64, scandir)

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

int
glob(const char *pattern, int flags, int (*failed)(const char *path, int error), glob_t *found)
{
    if (files_config() == NULL || (flags & GLOB_ALTDIRFUNC) != 0)
        return REAL(glob)(pattern, flags, failed, found);
    found->gl_opendir = glob_opendir;
    found->gl_closedir = glob_closedir;
    found->gl_readdir = glob_readdir;
    found->gl_stat = stat;
    found->gl_lstat = lstat;
    int result = REAL(glob)(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
    found->gl_flags &= ~GLOB_ALTDIRFUNC;
    return result;
}
ALSO(glob64, glob)

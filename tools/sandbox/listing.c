/*
 * listing.c - what the program sees in a directory that is really there and has copies or marks below it.
 *
 * The list is made at once, so that it stays as it is while the program creates and removes what it reads of. Called by
 * hooks_directories.c, and by the hooks of rmdir and rename.
 */
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <dirent.h>

struct listing {
    char *entries; /* struct dirent64, one after the other */
    size_t used, size, at;
    char path[]; /* of the directory */
};

enum { CHUNK_BYTES = 8192, NEVER = -1 };

static bool
is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* `path` with the name after it. */
static bool
child_path(char child[PATH_MAX], const char *path, const char *name)
{
    if (strlen(path) + 1 + strlen(name) >= PATH_MAX)
        return false;
    char *end = path[1] == '\0' ? child : stpcpy(child, path); /* the root ends in a slash itself */
    *end = '/';
    (void)stpcpy(end + 1, name);
    return true;
}

/* Calls `each` for the entries of a directory on the disk until it returns other than 0, and returns that; or -1. */
static int
for_each_entry(const char *directory, int (*each)(const struct dirent64 *entry, void *context), void *context)
{
    union {
        char bytes[CHUNK_BYTES];
        struct dirent64 aligned;
    } chunk;
    int fd = raw_open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0), result = 0;
    if (fd < 0)
        return -1;
    while (result == 0) {
        long count = syscall(SYS_getdents64, fd, chunk.bytes, sizeof(chunk.bytes));
        if (count <= 0) {
            result = (int)count;
            break;
        }
        for (long at = 0; at < count && result == 0;) {
            const struct dirent64 *entry = (const struct dirent64 *)(chunk.bytes + at);
            at += entry->d_reclen;
            result = each(entry, context);
        }
    }
    int error = errno;
    (void)syscall(SYS_close, fd);
    errno = error;
    return result;
}

/* Whether the real entry is the one that is seen. */
static bool
is_seen(const char *path, const char *name)
{
    char child[PATH_MAX], copy[FILES_PATH_MAX];
    struct stat found;
    if (is_dots(name))
        return true;
    if (!child_path(child, path, name))
        return true;
    path_in(copy, files_config()->written, child);
    return raw_lstat(copy, &found) != 0 && !overlay_is_removed(child);
}

static int
list_entry(struct listing *listing, const struct dirent64 *entry)
{
    size_t length = entry->d_reclen;
    if (listing->used + length > listing->size) {
        size_t size = (listing->size + length) * 2;
        char *entries = realloc(listing->entries, size);
        if (entries == NULL)
            return NEVER;
        listing->entries = entries;
        listing->size = size;
    }
    struct dirent64 *added = (struct dirent64 *)(listing->entries + listing->used);
    memcpy(added, entry, length);
    listing->used += length;
    added->d_off = (off64_t)listing->used; /* as telldir() has it */
    return 0;
}

static int
add_real(const struct dirent64 *entry, void *context)
{
    struct listing *listing = context;
    return is_seen(listing->path, entry->d_name) ? list_entry(listing, entry) : 0;
}

static int
add_copy(const struct dirent64 *entry, void *context)
{
    return is_dots(entry->d_name) ? 0 : list_entry(context, entry);
}

bool
listing_again(struct listing *listing)
{
    char copy[FILES_PATH_MAX];
    int saved = errno;
    listing->used = listing->at = 0;
    path_in(copy, files_config()->written, listing->path);
    if (for_each_entry(listing->path, add_real, listing) != 0)
        return false;
    if (for_each_entry(copy, add_copy, listing) != 0 && errno != ENOENT)
        return false;
    errno = saved;
    return true;
}

struct listing *
listing_read(const char *path)
{
    size_t size = strlen(path) + 1;
    struct listing *listing = malloc(sizeof(*listing) + size);
    if (listing == NULL)
        return NULL;
    *listing = (struct listing){.entries = NULL};
    memcpy(listing->path, path, size);
    if (listing_again(listing))
        return listing;
    int error = errno;
    listing_free(listing);
    errno = error;
    return NULL;
}

void
listing_free(struct listing *listing)
{
    if (listing != NULL)
        free(listing->entries);
    free(listing);
}

void *
listing_next(struct listing *listing)
{
    if (listing->at >= listing->used)
        return NULL;
    struct dirent64 *entry = (struct dirent64 *)(listing->entries + listing->at);
    listing->at += entry->d_reclen;
    return entry;
}

/* ---- whole directories ---- */

static int
is_entry(const struct dirent64 *entry, void *context)
{
    (void)context;
    return is_dots(entry->d_name) ? 0 : 1;
}

static int
is_seen_entry(const struct dirent64 *entry, void *context)
{
    return !is_dots(entry->d_name) && is_seen(context, entry->d_name);
}

int
listing_is_empty(const struct place *place)
{
    int has = for_each_entry(place->copy, is_entry, NULL);
    if (has < 0 && errno != ENOENT)
        return -1;
    if (has <= 0 && place->kind == PLACE_REAL) {
        char path[PATH_MAX];
        memcpy(path, place->path, strlen(place->path) + 1);
        has = for_each_entry(path, is_seen_entry, path);
        if (has < 0)
            return -1;
    }
    return has <= 0;
}

static int
copy_up_children(const struct place *place)
{
    struct listing *listing = listing_read(place->path);
    struct place *child = malloc(sizeof(*child));
    int failed = listing == NULL || child == NULL ? -1 : 0;
    const struct dirent64 *entry;
    while (!failed && (entry = listing_next(listing)) != NULL) {
        char path[PATH_MAX];
        if (is_dots(entry->d_name))
            continue;
        if (!child_path(path, place->path, entry->d_name)) {
            errno = ENAMETOOLONG;
            failed = -1;
        } else {
            failed = place_resolve(AT_FDCWD, path, PLACE_NO_FOLLOW, child) != 0 || listing_copy_up(child) != 0 ? -1 : 0;
        }
    }
    int error = errno;
    free(child);
    listing_free(listing);
    errno = error;
    return failed;
}

/* NOLINTNEXTLINE(misc-no-recursion) as deep as the tree */
int
listing_copy_up(struct place *place)
{
    struct stat found;
    if (place->kind != PLACE_REAL)
        return 0; /* all of it is a copy, or left alone */
    if (S_ISREG(place->mode) || S_ISLNK(place->mode))
        return overlay_copy_up(place, true);
    if (!S_ISDIR(place->mode))
        return files_fail(EXDEV); /* as between file systems: the program copies what it can */
    if (raw_lstat(place->path, &found) != 0 || overlay_make_parents(place) != 0)
        return -1;
    if (raw_mkdir(place->copy, 0700) != 0 && errno != EEXIST)
        return -1;
    if (copy_up_children(place) != 0)
        return -1;
    struct timespec times[2] = {found.st_atim, found.st_mtim};
    (void)!syscall(SYS_fchownat, AT_FDCWD, place->copy, found.st_uid, found.st_gid, 0);
    (void)syscall(SYS_utimensat, AT_FDCWD, place->copy, times, 0);
    return (int)syscall(SYS_fchmodat, AT_FDCWD, place->copy, found.st_mode & 07777);
}

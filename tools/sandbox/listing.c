/*
 * listing.c - what the program sees in a directory: entries of the real one, without what copies and marks hide, and of
 * its copy.
 *
 * The list is made at once, so that it stays as it is while the program creates and removes what it reads of. Called by
 * hooks_directories.c, and by the hooks of rmdir and rename.
 */
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <dirent.h>
#include <stdio.h>

struct listing {
    char *entries; /* struct dirent64, one after the other */
    size_t used, size, at;
    bool has_real; /* the real directory is seen */
    char path[];   /* of the directory */
};

enum { CHUNK_BYTES = 8192 };

static bool
is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* `path` with the name after it. */
static bool
child_path(char child[PATH_MAX], const char *path, const char *name)
{
    const char *folder = path[1] == '\0' ? "" : path; /* the root ends in a slash itself */
    return snprintf(child, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
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
            return -1;
        listing->entries = entries;
        listing->size = size;
    }
    struct dirent64 *added = (struct dirent64 *)(listing->entries + listing->used);
    memcpy(added, entry, length);
    listing->used += length;
    added->d_off = (off64_t)listing->used; /* as telldir() has it */
    return 0;
}

/* Takes real entries away that are not seen. After they were listed: what another process has made meanwhile was hidden
 * before. */
static void
drop_unseen(struct listing *listing)
{
    size_t end = listing->used;
    listing->used = 0;
    if (!overlay_has_changes(listing->path)) {
        listing->used = end;
        return;
    }
    for (size_t at = 0; at < end;) {
        struct dirent64 *entry = (struct dirent64 *)(listing->entries + at);
        size_t length = entry->d_reclen;
        at += length;
        if (!is_seen(listing->path, entry->d_name))
            continue;
        entry->d_off = (off64_t)(listing->used + length);
        memmove(listing->entries + listing->used, entry, length);
        listing->used += length;
    }
}

/* Adds the entries of a directory on the disk, of `folder`, a copy, or of the real one. 0, or -1. */
static int
list_folder(struct listing *listing, const char *folder, bool is_copy)
{
    union {
        char bytes[CHUNK_BYTES];
        struct dirent64 aligned;
    } chunk;
    int fd = raw_open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0), result = 0;
    long count = 1;
    if (fd < 0)
        return -1;
    while (result == 0 && (count = syscall(SYS_getdents64, fd, chunk.bytes, sizeof(chunk.bytes))) > 0) {
        for (long at = 0; at < count && result == 0;) {
            const struct dirent64 *entry = (const struct dirent64 *)(chunk.bytes + at);
            at += entry->d_reclen;
            if (!is_copy || !is_dots(entry->d_name))
                result = list_entry(listing, entry);
        }
    }
    int error = errno;
    (void)syscall(SYS_close, fd);
    errno = error;
    return count < 0 ? -1 : result;
}

bool
listing_again(struct listing *listing)
{
    char copy[FILES_PATH_MAX];
    int saved = errno;
    listing->used = listing->at = 0;
    path_in(copy, files_config()->written, listing->path);
    if (listing->has_real && list_folder(listing, listing->path, false) != 0)
        return false;
    drop_unseen(listing);
    if (list_folder(listing, copy, true) != 0 && errno != ENOENT)
        return false;
    errno = saved;
    return true;
}

struct listing *
listing_read(const struct place *place)
{
    size_t size = strlen(place->path) + 1;
    struct listing *listing = malloc(sizeof(*listing) + size);
    if (listing == NULL)
        return NULL;
    *listing = (struct listing){.has_real = place->kind == PLACE_REAL};
    memcpy(listing->path, place->path, size);
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

int
listing_is_empty(const struct place *place)
{
    struct listing *listing = listing_read(place);
    const struct dirent64 *entry;
    if (listing == NULL)
        return -1;
    do
        entry = listing_next(listing);
    while (entry != NULL && is_dots(entry->d_name));
    listing_free(listing);
    return entry == NULL;
}

static int
copy_up_children(const struct place *place)
{
    struct listing *listing = listing_read(place);
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

/*
 * paths.c - where a path leads in the overlay. Called by every hook.
 *
 * The walk is the kernel's own, name by name, on what the program sees: two names of one file meet in one canonical
 * path, and that path, below FILES_WRITTEN, is where the copy lies. A directory that only the run has made is really
 * entered where it lies, so that a relative path and a descriptor of it are recognised by that; for the program it is
 * where it seems to be.
 *
 * Below the last directory that has a copy, and below the last that has a mark, neither is looked for: in a region of
 * the file system without either, a name costs one system call. As long as nothing was written a reading call costs one
 * for the whole path, which is left as it is.
 */
#include "interpose/files/overlay.h"
#include "interpose/files/raw.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

enum { LINKS_MAX = 40 }; /* as the kernel's MAXSYMLINKS */

enum layer { LAYER_NONE, LAYER_REAL, LAYER_COPY };

struct walk {
    const struct files_config *config; /* NULL: outside of the overlay */
    char *copy;                        /* the same text as `path`, behind the path of FILES_WRITTEN */
    char *path;                        /* "" is the root */
    size_t length;                     /* of path */
    size_t size;                       /* of the memory of path */
    /* Where path has been cut off, nothing deeper is: SIZE_MAX as long as that is not known. */
    size_t copies_end, marks_end, hidden_from;
    bool steered;
    char *rest; /* what is still to be walked, in a buffer of PATH_MAX */
    /* What the last look-up found. */
    enum layer layer;
    mode_t mode;
    int error; /* of LAYER_NONE */
};

static void
cut(struct walk *walk, size_t length)
{
    walk->length = length;
    walk->path[length] = '\0';
    if (length < walk->copies_end)
        walk->copies_end = SIZE_MAX;
    if (length < walk->marks_end)
        walk->marks_end = SIZE_MAX;
    if (length < walk->hidden_from)
        walk->hidden_from = SIZE_MAX;
}

static bool
append(struct walk *walk, const char *name, size_t length)
{
    if (walk->length + 1 + length >= walk->size)
        return false;
    walk->path[walk->length] = '/';
    memcpy(walk->path + walk->length + 1, name, length);
    walk->length += 1 + length;
    walk->path[walk->length] = '\0';
    return true;
}

static void
go_up(struct walk *walk)
{
    const char *slash = strrchr(walk->path, '/');
    if (slash != NULL)
        cut(walk, (size_t)(slash - walk->path));
}

/* The mark of the path: in walk->marks_end or walk->hidden_from. */
static void
look_for_mark(struct walk *walk)
{
    char mark[FILES_PATH_MAX];
    size_t length = strlen(walk->config->removed);
    struct stat found;
    memcpy(mark, walk->config->removed, length);
    memcpy(mark + length, walk->path, walk->length + 1);
    if (raw_lstat(mark, &found) != 0)
        *(errno == ENOTDIR ? &walk->hidden_from : &walk->marks_end) = walk->length;
    else if (S_ISREG(found.st_mode))
        walk->hidden_from = walk->length;
}

/* What is at walk->path. */
static void
look(struct walk *walk)
{
    struct stat found;
    walk->layer = LAYER_NONE;
    walk->error = ENOENT;
    if (walk->config != NULL && walk->copies_end == SIZE_MAX) {
        if (raw_lstat(walk->copy, &found) == 0) {
            walk->layer = LAYER_COPY;
            walk->mode = found.st_mode;
            return;
        }
        if (errno != ENOENT && errno != ENOTDIR) {
            walk->error = errno;
            return;
        }
        walk->copies_end = walk->length;
    }
    if (walk->config != NULL && walk->marks_end == SIZE_MAX && walk->hidden_from == SIZE_MAX)
        look_for_mark(walk);
    if (walk->hidden_from != SIZE_MAX)
        return;
    if (raw_lstat(walk->length > 0 ? walk->path : "/", &found) != 0) {
        walk->error = errno;
        return;
    }
    walk->layer = LAYER_REAL;
    walk->mode = found.st_mode;
}

/* Puts what the link at walk->path says before walk->rest, which lies in `buffer`. 0, or what errno should be. */
static int
follow_link(struct walk *walk, char buffer[PATH_MAX])
{
    char target[PATH_MAX];
    ssize_t length = raw_readlink(walk->layer == LAYER_COPY ? walk->copy : walk->path, target, sizeof(target));
    if (length <= 0)
        return length < 0 ? errno : ENOENT;
    size_t left = strlen(walk->rest);
    if ((size_t)length + left >= PATH_MAX)
        return ENAMETOOLONG;
    memmove(buffer + length, walk->rest, left + 1);
    memcpy(buffer, target, (size_t)length);
    walk->rest = buffer;
    if (walk->layer == LAYER_COPY)
        walk->steered = true;
    if (target[0] == '/')
        cut(walk, 0);
    else
        go_up(walk);
    return 0;
}

/*
 * Walks from walk->path along the path in `buffer`. 0, or what errno should be: in any case walk->path is as far as it
 * came. What is absent at the end is no error.
 */
static int
walk_along(struct walk *walk, char buffer[PATH_MAX], enum place_follow follow, enum place_last *last,
           bool *ends_in_slash)
{
    bool looked = false;
    int links = 0;
    *last = LAST_DOT;
    *ends_in_slash = false;
    walk->rest = buffer;
    for (;;) {
        const char *name = walk->rest += strspn(walk->rest, "/");
        if (*name == '\0')
            break;
        size_t length = strcspn(name, "/");
        walk->rest += length;
        bool is_last = walk->rest[strspn(walk->rest, "/")] == '\0';
        *ends_in_slash = is_last && *walk->rest == '/';
        *last = LAST_DOT;
        looked = false;
        if (length == 1 && name[0] == '.')
            continue;
        if (length == 2 && name[0] == '.' && name[1] == '.') {
            *last = LAST_DOTDOT;
            if (walk->layer == LAYER_COPY)
                walk->steered = true; /* there need not be a real directory to go up from */
            go_up(walk);
            continue;
        }
        *last = LAST_NAME;
        if (length > NAME_MAX || !append(walk, name, length))
            return ENAMETOOLONG;
        look(walk);
        looked = true;
        if (walk->layer == LAYER_NONE)
            return is_last && walk->error == ENOENT ? 0 : walk->error;
        bool must_be_directory = !is_last || (*ends_in_slash && follow != PLACE_ENTRY);
        if (S_ISLNK(walk->mode) && files_is_magic(walk->path))
            continue;
        if (S_ISLNK(walk->mode) && (must_be_directory || follow == PLACE_FOLLOW)) {
            if (++links > LINKS_MAX)
                return ELOOP;
            int error = follow_link(walk, buffer);
            if (error != 0)
                return error;
            looked = false;
        } else if (must_be_directory && !S_ISDIR(walk->mode)) {
            return ENOTDIR;
        }
    }
    if (!looked) /* the path ends with a dot, or is the root */
        look(walk);
    return walk->layer == LAYER_NONE ? walk->error : 0;
}

bool
place_canonical(const char *path, char canonical[PATH_MAX])
{
    char buffer[PATH_MAX];
    size_t length = strlen(path);
    struct walk walk = {
        .path = canonical, .size = PATH_MAX, .copies_end = SIZE_MAX, .marks_end = SIZE_MAX, .hidden_from = SIZE_MAX};
    enum place_last last;
    bool ends_in_slash;
    if (length >= sizeof(buffer))
        return false;
    memcpy(buffer, path, length + 1);
    canonical[0] = '\0';
    int error = walk_along(&walk, buffer, PLACE_FOLLOW, &last, &ends_in_slash);
    if (error == ENOENT || error == ENOTDIR || error == EACCES) {
        size_t known = strlen(canonical), left = strlen(walk.rest); /* beyond what exists there are no links */
        if (known + left >= PATH_MAX)
            return false;
        memcpy(canonical + known, walk.rest, left + 1);
    } else if (error != 0) {
        return false;
    }
    for (length = strlen(canonical); length > 0 && canonical[length - 1] == '/';)
        canonical[--length] = '\0';
    if (length == 0)
        memcpy(canonical, "/", 2);
    return true;
}

bool
place_of_fd(int fd, char path[PATH_MAX])
{
    char link[32] = "/proc/self/fd/", digits[12];
    size_t count = 0, at = sizeof("/proc/self/fd/") - 1;
    if (fd < 0)
        return false;
    do {
        digits[count++] = (char)('0' + fd % 10);
        fd /= 10;
    } while (fd > 0);
    while (count > 0)
        link[at++] = digits[--count];
    link[at] = '\0';
    ssize_t length = raw_readlink(link, path, PATH_MAX);
    if (length <= 0 || length >= PATH_MAX || path[0] != '/')
        return false;
    path[length] = '\0';
    return true;
}

/* Where a relative path begins: in walk->path. False if the kernel has to say what is wrong with it. */
static bool
begin(struct walk *walk, int dirfd)
{
    static const char deleted[] = " (deleted)";
    char base[PATH_MAX];
    if (dirfd == AT_FDCWD) {
        if (syscall(SYS_getcwd, base, sizeof(base)) <= 0 || base[0] != '/')
            return false;
    } else {
        struct stat found;
        if (!place_of_fd(dirfd, base))
            return false;
        size_t length = strlen(base), end = sizeof(deleted) - 1;
        if (length > end && strcmp(base + length - end, deleted) == 0 && raw_fstat(dirfd, &found) == 0 &&
            found.st_nlink == 0)
            return false;
    }
    const char *path = files_below(base, walk->config->written);
    walk->steered = path != NULL;
    if (path == NULL)
        path = base;
    while (path[0] == '/' && path[1] == '\0')
        ++path;
    size_t length = strlen(path);
    if (length >= walk->size)
        return false;
    memcpy(walk->path, path, length + 1);
    walk->length = length;
    return true;
}

/* From what the walk found to what the hooks want to know. */
static void
conclude(const struct walk *walk, struct place *place)
{
    struct stat found;
    place->steered = walk->steered;
    if (walk->length == 0)
        memcpy(walk->path, "/", 2);
    if (files_is_excepted(place->path)) {
        place->kind = PLACE_PASS;
        return;
    }
    place->kind = walk->layer == LAYER_REAL ? PLACE_REAL : walk->layer == LAYER_COPY ? PLACE_COPY : PLACE_ABSENT;
    place->mode = walk->mode;
    if (walk->layer == LAYER_NONE && walk->hidden_from != SIZE_MAX)
        place->steered = true;
    if (walk->layer == LAYER_COPY && S_ISDIR(walk->mode) && overlay_sees_real(place->path, &found) &&
        S_ISDIR(found.st_mode)) {
        place->kind = PLACE_REAL;
        place->has_copy = true;
        place->mode = found.st_mode;
    }
}

int
place_resolve(int dirfd, const char *path, enum place_follow follow, struct place *place)
{
    const struct files_config *config = files_config();
    char buffer[PATH_MAX];
    int saved = errno;
    place->kind = PLACE_PASS;
    place->steered = place->has_copy = place->ends_in_slash = false;
    place->last = LAST_NAME;
    place->mode = 0;
    if (config == NULL || path == NULL || *path == '\0')
        return 0;
    size_t length = strlen(path);
    if (length >= sizeof(buffer)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(buffer, path, length + 1);
    memcpy(place->copy, config->written, config->written_length + 1);
    place->path = place->copy + config->written_length;
    struct walk walk = {.config = config,
                        .copy = place->copy,
                        .path = place->copy + config->written_length,
                        .size = sizeof(place->copy) - config->written_length,
                        .copies_end = SIZE_MAX,
                        .marks_end = SIZE_MAX,
                        .hidden_from = SIZE_MAX};
    if (walk.size > PATH_MAX)
        walk.size = PATH_MAX;
    if (*path != '/' && !begin(&walk, dirfd)) {
        errno = saved;
        return 0;
    }
    int error = walk_along(&walk, buffer, follow, &place->last, &place->ends_in_slash);
    if (error != 0 && (walk.steered || !files_is_excepted(place->path))) {
        errno = error;
        return -1;
    }
    conclude(&walk, place);
    errno = saved;
    return 0;
}

void
place_use_real(const struct place *place, int *dirfd, const char **path)
{
    if (place->steered) {
        *dirfd = AT_FDCWD;
        *path = place->path;
    }
}

void
place_use_copy(const struct place *place, int *dirfd, const char **path)
{
    *dirfd = AT_FDCWD;
    *path = place->copy;
}

int
place_read(int *dirfd, const char **path, enum place_follow follow, struct place *place)
{
    if (files_config() == NULL || !overlay_has_content())
        return 0;
    if (place_resolve(*dirfd, *path, follow, place) != 0)
        return -1;
    if (place->kind == PLACE_COPY) {
        place_use_copy(place, dirfd, path);
    } else if (place->kind == PLACE_ABSENT && place->steered) {
        errno = ENOENT;
        return -1;
    } else {
        place_use_real(place, dirfd, path);
    }
    return 0;
}

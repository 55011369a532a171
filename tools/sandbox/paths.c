/*
 * paths.c - where a path leads in the overlay. Called by every hook.
 *
 * As long as nothing was written a reading call costs one system call for the whole path, which is left as it is.
 */
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <stdio.h>

bool
place_of_fd(int fd, char path[PATH_MAX])
{
    char link[32];
    if (fd < 0)
        return false;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = raw_readlink(link, path, PATH_MAX);
    if (length <= 0 || length >= PATH_MAX || path[0] != '/')
        return false;
    path[length] = '\0';
    return true;
}

/* Where a relative path begins: in walk->path. False if the kernel has to say what is wrong with it. */
static bool
begin_walk(struct walk *walk, int dirfd)
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
    if (length >= PATH_MAX)
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
    if (length >= sizeof(buffer))
        return files_fail(ENAMETOOLONG);
    memcpy(buffer, path, length + 1);
    memcpy(place->copy, config->written, config->written_length + 1);
    place->path = place->copy + config->written_length;
    struct walk walk = {
        .config = config, .copy = place->copy, .path = place->copy + config->written_length, .hidden_from = SIZE_MAX};
    if (*path != '/' && !begin_walk(&walk, dirfd)) {
        errno = saved;
        return 0;
    }
    int error = walk_along(&walk, buffer, follow, &place->last, &place->ends_in_slash);
    if (error != 0 && (walk.steered || !files_is_excepted(place->path)))
        return files_fail(error);
    conclude(&walk, place);
    errno = saved;
    return 0;
}

int
place_use_real(const struct place *place, int *dirfd, const char **path)
{
    if (place->steered) {
        *dirfd = AT_FDCWD;
        *path = place->path;
    }
    return 0;
}

int
place_use_copy(const struct place *place, int *dirfd, const char **path)
{
    *dirfd = AT_FDCWD;
    *path = place->copy;
    return 0;
}

int
place_read(int *dirfd, const char **path, enum place_follow follow, struct place *place)
{
    if (files_config() == NULL || !overlay_has_content())
        return 0;
    if (place_resolve(*dirfd, *path, follow, place) != 0)
        return -1;
    if (place->kind == PLACE_ABSENT) /* by now another process may have made it, which the program does not see */
        return files_fail(ENOENT);
    return (place->kind == PLACE_COPY ? place_use_copy : place_use_real)(place, dirfd, path);
}

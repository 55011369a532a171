/* walk.c - see overlay.h. */
#include "tools/sandbox/overlay.h"

#include "tools/sandbox/raw.h"

enum { LINKS_MAX = 40 }; /* as the kernel's MAXSYMLINKS */

const char *
files_below(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    if (strncmp(text, prefix, length) != 0 || (text[length] != '/' && text[length] != '\0'))
        return NULL;
    return text + length;
}

bool
files_is_magic(const char *path)
{
    return files_below(path, "/proc") != NULL || files_below(path, "/sys") != NULL || files_below(path, "/dev") != NULL;
}

static void
cut_path(struct walk *walk, size_t length)
{
    walk->length = length;
    walk->path[length] = '\0';
    if (length < walk->hidden_from)
        walk->hidden_from = SIZE_MAX;
}

static bool
walk_append(struct walk *walk, const char *name, size_t length)
{
    if (walk->length + 1 + length >= PATH_MAX)
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
        cut_path(walk, (size_t)(slash - walk->path));
}

void
path_in(char target[FILES_PATH_MAX], const char *folder, const char *path)
{
    size_t length = strlen(folder), size = strnlen(path, PATH_MAX - 1);
    memcpy(target, folder, length);
    memcpy(target + length, path, size);
    target[length + size] = '\0';
}

bool
path_is_removed(const char *path, const char *removed)
{
    char mark[FILES_PATH_MAX];
    struct stat found;
    path_in(mark, removed, path);
    return raw_lstat(mark, &found) == 0 ? S_ISREG(found.st_mode) : errno == ENOTDIR;
}

/* Looks for a copy in the overlay. True: the answer is known, a copy or an error. */
static bool
look_at_copy(struct walk *walk)
{
    struct stat found;
    if (raw_lstat(walk->copy, &found) == 0) {
        walk->layer = LAYER_COPY;
        walk->mode = found.st_mode;
        return true;
    }
    bool is_absent = errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG; /* so long is no copy */
    if (!is_absent)
        walk->error = errno;
    return !is_absent;
}

/* Notes that what is really at walk->path is hidden. */
static bool
look_at_mark(struct walk *walk)
{
    if (walk->hidden_from == SIZE_MAX && path_is_removed(walk->path, walk->config->removed))
        walk->hidden_from = walk->length;
    return walk->hidden_from != SIZE_MAX;
}

/* What is at walk->path. Rank 0 of a plan may change this overlay meanwhile (others.c): it puts a copy there before it
 * takes the real entry away, and a mark before it makes one. So each is looked at once more after the real entry. */
static void
look_at_path(struct walk *walk)
{
    struct stat found;
    walk->layer = LAYER_NONE;
    walk->error = ENOENT;
    if (walk->config != NULL && (look_at_copy(walk) || look_at_mark(walk)))
        return;
    if (walk->hidden_from != SIZE_MAX)
        return;
    if (raw_lstat(walk->length > 0 ? walk->path : "/", &found) != 0) {
        walk->error = errno;
        if (walk->config != NULL && walk->error == ENOENT)
            (void)look_at_copy(walk);
        return;
    }
    if (walk->config != NULL && look_at_mark(walk))
        return;
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
        cut_path(walk, 0);
    else
        go_up(walk);
    return 0;
}

int
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
        if (length > NAME_MAX || !walk_append(walk, name, length))
            return ENAMETOOLONG;
        look_at_path(walk);
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
        look_at_path(walk);
    return walk->layer == LAYER_NONE ? walk->error : 0;
}

bool
place_canonical(const char *path, char canonical[PATH_MAX])
{
    char buffer[PATH_MAX];
    size_t length = strlen(path);
    struct walk walk = {.path = canonical, .hidden_from = SIZE_MAX};
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

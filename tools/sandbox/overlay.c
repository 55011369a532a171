/*
 * overlay.c - what lies in the private folder: copies of files, and marks of what was removed.
 *
 * Other threads and other processes do the same at the same time, without a lock: a copy is made in FILES_COPIES and
 * then linked to its name, which one of several wins; a mark is made before that which it hides is taken away, or
 * after that which replaces it is there, so that a path never shows the real file again.
 */
#include "tools/sandbox/overlay.h"
#include "tools/sandbox/raw.h"

#include <linux/fs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>

enum { COPY_CHUNK_BYTES = 16384 };

/* ---- what is there ---- */

bool
overlay_has_content(void)
{
    static _Atomic bool known;
    struct stat found;
    if (atomic_load_explicit(&known, memory_order_relaxed))
        return true;
    int saved = errno;
    bool has = raw_lstat(files_config()->written, &found) == 0;
    errno = saved;
    if (has)
        atomic_store_explicit(&known, true, memory_order_relaxed);
    return has;
}

bool
overlay_is_removed(const char *path)
{
    return path_is_removed(path, files_config()->removed);
}

bool
overlay_has_changes(const char *path)
{
    const char *const folders[] = {files_config()->removed, files_config()->written};
    for (unsigned i = 0; i < 2; ++i) {
        char changed[FILES_PATH_MAX];
        struct stat found;
        path_in(changed, folders[i], path);
        if (raw_lstat(changed, &found) == 0 && S_ISDIR(found.st_mode))
            return true;
    }
    return false;
}

bool
overlay_sees_real(const char *path, struct stat *found)
{
    return raw_lstat(path, found) == 0 && !overlay_is_removed(path);
}

/* The folder of `path`. */
static void
parent_of(char parent[FILES_PATH_MAX], const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL && slash > path ? (size_t)(slash - path) : 1;
    memcpy(parent, path, length);
    parent[length] = '\0';
}

/* Makes every folder of `path` (in the private folder, which exists) that is not there. */
static int
make_folders(char *path)
{
    char *slash = path + strlen(files_config()->dir);
    while ((slash = strchr(slash + 1, '/')) != NULL) {
        *slash = '\0';
        int made = raw_mkdir(path, 0700);
        *slash = '/';
        if (made != 0 && errno != EEXIST)
            return -1;
    }
    return 0;
}

/* A name in FILES_COPIES that is not taken: makes the folder, too. */
static int
temporary_name(char path[FILES_PATH_MAX])
{
    static _Atomic unsigned count;
    struct timespec now = {0, 0};
    const char *folder = files_config()->copies;
    if (raw_mkdir(folder, 0700) != 0 && errno != EEXIST)
        return -1;
    (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    snprintf(path, FILES_PATH_MAX, "%s/%08x-%08x-%08x-%08x", folder, (unsigned)syscall(SYS_getpid),
             atomic_fetch_add(&count, 1), (unsigned)now.tv_nsec, (unsigned)now.tv_sec);
    return 0;
}

/* ---- marks ---- */

/* A mark instead of the marks below `path`. */
static int
replace_marks(const char *mark)
{
    char empty[FILES_PATH_MAX];
    if (temporary_name(empty) != 0)
        return -1;
    int fd = raw_open(empty, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return -1;
    (void)syscall(SYS_close, fd);
    if (raw_rename(empty, mark, RENAME_EXCHANGE) == 0)
        return 0; /* the folder stays among the copies */
    char away[FILES_PATH_MAX];
    if (temporary_name(away) != 0 || raw_rename(mark, away, 0) != 0)
        return -1;
    return raw_rename(empty, mark, 0);
}

int
overlay_mark_removed(const char *path)
{
    char mark[FILES_PATH_MAX];
    struct stat found;
    path_in(mark, files_config()->removed, path);
    /* The folder for everything that is written says that there is content; it comes first. */
    if (raw_mkdir(files_config()->written, 0700) != 0 && errno != EEXIST)
        return -1;
    if (make_folders(mark) != 0)
        return errno == ENOTDIR ? 0 : -1; /* hidden already, with a folder above */
    int fd = raw_open(mark, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        (void)syscall(SYS_close, fd);
        return 0;
    }
    if (errno == ENOTDIR)
        return 0;
    if (errno == EISDIR && raw_lstat(mark, &found) == 0 && S_ISDIR(found.st_mode))
        return replace_marks(mark);
    return -1;
}

/* ---- what the program may do in reality ---- */

/* The folder that says who may change it: the real one if the program sees it, else the run's own. */
static int
check_parent(const struct place *place, struct stat *folder)
{
    char parent[FILES_PATH_MAX];
    parent_of(parent, place->path);
    if (!overlay_sees_real(parent, folder)) {
        parent_of(parent, place->copy);
        if (raw_lstat(parent, folder) != 0)
            return -1;
    }
    return raw_access(parent, W_OK | X_OK);
}

int
overlay_check_create(const struct place *place)
{
    struct stat folder;
    return check_parent(place, &folder);
}

int
overlay_check_remove(const struct place *place)
{
    struct stat folder, found;
    if (check_parent(place, &folder) != 0)
        return -1;
    uid_t user = geteuid();
    if ((folder.st_mode & S_ISVTX) != 0 && user != 0 && user != folder.st_uid &&
        raw_lstat(place->kind == PLACE_COPY ? place->copy : place->path, &found) == 0 && found.st_uid != user)
        return files_fail(EPERM);
    return 0;
}

int
overlay_make_parents(const struct place *place)
{
    char path[FILES_PATH_MAX];
    memcpy(path, place->copy, strlen(place->copy) + 1);
    return make_folders(path);
}

int
overlay_prepare_create(const struct place *place)
{
    return overlay_check_create(place) != 0 ? -1 : overlay_make_parents(place);
}

/* ---- copies ---- */

/* Whether a file of that size may be copied: any, unless it is for other processes. */
static bool
has_room(uint64_t bytes)
{
    static _Atomic uint64_t kept_bytes;
    if (files_others()[0] == '\0')
        return true;
    return bytes <= FILES_KEPT_BYTES && atomic_fetch_add(&kept_bytes, bytes) <= FILES_KEPT_BYTES - bytes;
}

static int
copy_content(int from, int to)
{
    char chunk[COPY_CHUNK_BYTES];
    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    for (;;) {
        ssize_t count = syscall(SYS_read, from, chunk, sizeof(chunk));
        if (count == 0)
            return 0;
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -1;
        for (ssize_t done = 0; done < count;) {
            ssize_t written = syscall(SYS_write, to, chunk + done, (size_t)(count - done));
            if (written < 0 && errno != EINTR)
                return -1;
            done += written > 0 ? written : 0;
        }
    }
}

/* Makes the file `target` of the same mode and times, and where possible of the same owner. Without content the program
 * need not be able to read the file. */
static int
copy_file(const char *source, const char *target, bool with_content)
{
    struct stat found;
    if (raw_lstat(source, &found) != 0)
        return -1;
    if (with_content && !has_room((uint64_t)found.st_size))
        return files_fail(EFBIG);
    int from = with_content ? raw_open(source, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0) : -1;
    if (with_content && from < 0)
        return -1;
    int to = raw_open(target, O_WRONLY | O_CREAT | O_EXCL, 0600);
    int failed = to < 0 || (with_content && copy_content(from, to) != 0);
    if (!failed) {
        struct timespec times[2] = {found.st_atim, found.st_mtim};
        (void)!syscall(SYS_fchown, to, found.st_uid, found.st_gid);
        failed = syscall(SYS_fchmod, to, found.st_mode & 07777) != 0;
        (void)syscall(SYS_utimensat, to, NULL, times, 0);
    }
    int error = errno;
    if (from >= 0)
        (void)syscall(SYS_close, from);
    if (to >= 0) {
        (void)syscall(SYS_close, to);
        if (failed)
            (void)raw_unlink(target);
    }
    errno = error;
    return failed ? -1 : 0;
}

static int
copy_link(const char *source, const char *target)
{
    char text[PATH_MAX];
    ssize_t length = raw_readlink(source, text, sizeof(text) - 1);
    if (length < 0)
        return -1;
    text[length] = '\0';
    return (int)syscall(SYS_symlinkat, text, AT_FDCWD, target);
}

/* Whether the file is gone, and lies in the overlay: rank 0 of a plan puts it there before it takes the real one away
 * (others.c), perhaps after this process has looked. */
static bool
was_kept(const struct place *place)
{
    struct stat found;
    return errno == ENOENT && raw_lstat(place->copy, &found) == 0;
}

static int
make_copy(const struct place *place, const char *target, bool with_content)
{
    return S_ISLNK(place->mode) ? copy_link(place->path, target) : copy_file(place->path, target, with_content);
}

int
overlay_copy_up(struct place *place, bool with_content)
{
    char temporary[FILES_PATH_MAX];
    int saved = errno;
    if (overlay_make_parents(place) != 0 || temporary_name(temporary) != 0)
        return -1;
    if (make_copy(place, temporary, with_content) != 0) {
        if (!was_kept(place))
            return -1;
        place->kind = PLACE_COPY;
        errno = saved;
        return 0;
    }
    int failed = raw_link(temporary, place->copy) != 0 && errno != EEXIST; /* another one's copy is as good */
    int error = errno;
    (void)raw_unlink(temporary);
    errno = failed ? error : saved;
    if (failed)
        return -1;
    place->kind = PLACE_COPY;
    return 0;
}

/*
 * overlay.h - what the files of this folder know of each other.
 *
 * The rules of this folder: nothing but libc is needed; a hook may be called at any time, by any thread, in a forked
 * child and before the constructor; no lock, no output, no exit; nothing allocates but what lists directories, or
 * asks whether one is empty, and backtrace() of a note; errno after a success is what it was before. The library's own
 * look-ups and copies are system calls (raw_*), so they pass no hook; the program's call goes to the next definition of
 * the function, by REAL(name), with the path that it means.
 *
 * All state is in the private folder, so that processes share it. It only grows in one respect: what is marked as
 * removed stays so, and a new file of that name lies in FILES_WRITTEN above the mark.
 */
#ifndef DDPRUN_TOOLS_SANDBOX_OVERLAY_H
#define DDPRUN_TOOLS_SANDBOX_OVERLAY_H

#include "tools/sandbox/files.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

enum {
    FILES_DIR_MAX = 1024,                     /* of the private folder's path, with one of the names below it */
    FILES_PATH_MAX = FILES_DIR_MAX + PATH_MAX /* of a path in the private folder */
};

/* ---- walk.c ---- */

/* Resolves the links of an absolute path outside of the overlay; what does not exist is kept. False if too long. */
bool place_canonical(const char *path, char canonical[PATH_MAX]);

/* Whether it is below /proc, /sys or /dev, whose links are not what they read as. */
bool files_is_magic(const char *path);

/* `path` in a folder of the private one. */
void path_in(char target[FILES_PATH_MAX], const char *folder, const char *path);

/* Whether a mark in the folder FILES_REMOVED hides the real thing at `path`. */
bool path_is_removed(const char *path, const char *removed);

/* `text` without `prefix`, if that ends where a name ends: "" or "/..."; NULL if it does not begin with it. */
const char *files_below(const char *text, const char *prefix);

/* ---- config.c ---- */

struct files_config {
    size_t written_length;
    char dir[FILES_DIR_MAX]; /* canonical, as are the next three */
    char written[FILES_DIR_MAX];
    char removed[FILES_DIR_MAX];
    char copies[FILES_DIR_MAX];
};

/* What the environment asked for when the process started, or what the calling thread stands for; NULL: nothing is
 * redirected. */
const struct files_config *files_config(void);

/* The calling thread stands for a process with this private folder, until it is called with NULL. False: the path is
 * too long. `stands` is the caller's memory until then. */
bool files_stand_for(const char *dir, struct files_config *stands);

/* FILES_ENV_OTHERS; "": there are none. */
const char *files_others(void);

/* Whether files are noted. */
bool files_notes(void);

/* What FILES_ENV_DATE says. */
struct files_date {
    int64_t start_us;
    int64_t ahead;
    bool stands;     /* also when the steps begin */
    const char *dir; /* FILES_ENV_DIR, canonical */
};

/* NULL: the program sees the date as it is. */
const struct files_date *files_date(void);

/* Whether the canonical path is never redirected. */
bool files_is_excepted(const char *path);

/* ---- paths.c ---- */

enum place_kind {
    PLACE_PASS = 0, /* not redirected, or not understood: the call is passed on unchanged */
    PLACE_ABSENT,   /* nothing there; its folder exists */
    PLACE_REAL,     /* the real one is seen; with has_copy it is a directory with copies below it */
    PLACE_COPY,     /* the one in FILES_WRITTEN is seen, and nothing of the real one */
};

enum place_last { LAST_NAME, LAST_DOT, LAST_DOTDOT };

/* Where a path leads in the overlay. */
struct place {
    enum place_kind kind;
    enum place_last last;
    bool steered;              /* the kernel would get elsewhere with the path as it came */
    bool has_copy;             /* of PLACE_REAL */
    bool ends_in_slash;        /* the path demands a directory */
    mode_t mode;               /* of PLACE_REAL and PLACE_COPY */
    const char *path;          /* canonical; points into `copy` */
    char copy[FILES_PATH_MAX]; /* the path in FILES_WRITTEN */
};

/* Of a symbolic link at the end of a path. */
enum place_follow {
    PLACE_ENTRY,     /* the link itself is meant, even before a slash: for calls that change a directory */
    PLACE_NO_FOLLOW, /* the link, unless there is a slash */
    PLACE_FOLLOW,    /* what it leads to */
};
#define PLACE_FOLLOW_UNLESS(condition) ((condition) ? PLACE_NO_FOLLOW : PLACE_FOLLOW)

/* Finds the place. 0, or -1 with errno as the kernel's walk has it. */
int place_resolve(int dirfd, const char *path, enum place_follow follow, struct place *place)
    __attribute__((warn_unused_result));

/* Gives `*dirfd` and `*path` what the call needs: as they came, or the real path, or the copy's. Returns 0. */
int place_use_real(const struct place *place, int *dirfd, const char **path);
int place_use_copy(const struct place *place, int *dirfd, const char **path);

/* For calls that only read: changes `*dirfd` and `*path` to what the program sees. 0, or -1 with errno. `place` is the
 * caller's memory, in which *path points afterwards. */
int place_read(int *dirfd, const char **path, enum place_follow follow, struct place *place)
    __attribute__((warn_unused_result));

/* The path of an open descriptor, canonical; false if it has none. */
bool place_of_fd(int fd, char path[PATH_MAX]);

/* ---- overlay.c ---- */

/* Whether anything was ever written or removed: cheap, and false in the beginning. */
bool overlay_has_content(void);

/* Whether the real thing at `path` is hidden. */
bool overlay_is_removed(const char *path);

/* Whether something below the directory `path` is hidden, or is a copy. */
bool overlay_has_changes(const char *path);

/* The real thing at `path`, if the program may see it. */
bool overlay_sees_real(const char *path, struct stat *found);

/* Hides the real thing at `path`, with all below. */
int overlay_mark_removed(const char *path) __attribute__((warn_unused_result));

/* Whether the program could make an entry in the folder of `place`, and may remove one: 0, or -1 with errno. */
int overlay_check_create(const struct place *place) __attribute__((warn_unused_result));
int overlay_check_remove(const struct place *place) __attribute__((warn_unused_result));

/* Makes the folders in which the copy lies. */
int overlay_make_parents(const struct place *place) __attribute__((warn_unused_result));

/* check_create and make_parents. */
int overlay_prepare_create(const struct place *place) __attribute__((warn_unused_result));

/* Copies the real file or link there (without content: an empty file of its mode); place is PLACE_COPY after it. */
int overlay_copy_up(struct place *place, bool with_content) __attribute__((warn_unused_result));

/* ---- others.c ---- */

/* What is kept for the processes of FILES_ENV_OTHERS. */
enum others_kept {
    OTHERS_ABSENCE = 1, /* nothing is there: the call makes it */
    OTHERS_FILE = 2,    /* a file or a link */
    OTHERS_FOLDER = 4,  /* a directory, without its entries */
    OTHERS_TREE = 8,    /* a directory with all below it */
};

/* Before a call of this process changes what `path` names: keeps what the others see there. `kept`: of enum
 * others_kept, what the call may change. What cannot be kept they see as it will be. */
void others_keep(int dirfd, const char *path, enum place_follow follow, unsigned kept);

/* ---- notes.c ---- */

/* A call of the program has opened `path`, from the folder `dirfd`, with these flags; fd -1: it has not. */
void note_file(int dirfd, const char *path, int fd, int flags);

/* ---- callers.c ---- */

/* Whether the call of `name`, which returns to `caller`, is made by the program or a library of its own; NULL: by the
 * stack. It is then noted in FILES_READINGS, once for each place; name NULL: it is not. */
bool caller_is_programs(const char *name, const void *caller);

/* ---- date.c: only with files_date() ---- */

/* The date as the program sees it, at one more reading. Microseconds since 1970. */
int64_t date_read_us(const void *caller);

/* What the program has waited: until a date, or so long, by a call that returns to `caller`. */
void date_waited(const struct timespec *until);
void date_slept(int64_t us, const void *caller);

/* *until, as the program sees the date, is *real; false: it is no date, but a time of another clock. */
bool date_make_real(const struct timespec *until, struct timespec *real);

/* The next random bytes. */
void date_fill(void *bytes, size_t count);

/* Makes a file of random bytes for one descriptor to read, instead of the system's. */
bool date_make_random(char path[FILES_PATH_MAX]);

/* ---- hooks_open.c ---- */

/* As place_read(), for a call that opens with these flags: afterwards the copy is there if one is needed. */
int open_prepare(int *dirfd, const char **path, int flags, struct place *place) __attribute__((warn_unused_result));

/* ---- listing.c ---- */

struct listing;

/* All that the program sees in the directory; NULL with errno. */
struct listing *listing_read(const struct place *place);
void listing_free(struct listing *listing);

/* Reads it again, from the beginning. */
bool listing_again(struct listing *listing);

/* The next entry, a struct dirent64, or NULL. */
void *listing_next(struct listing *listing);

/* Whether the program sees a directory without entries: 1 or 0, or -1 with errno. */
int listing_is_empty(const struct place *place);

/* overlay_copy_up() of whatever it is, a directory with all that the program sees below it. */
int listing_copy_up(struct place *place) __attribute__((warn_unused_result));

/* ---- walk.c: from name to name along a path ---- */
/* The walk is the kernel's own, on what the program sees: two names of one file meet in one canonical path, and that
 * path, below FILES_WRITTEN, is where the copy lies. A directory that only the run has made is really entered where
 * it lies, so that a relative path and a descriptor of it are recognised by that; for the program it is where it
 * seems to be. */

enum layer { LAYER_NONE, LAYER_REAL, LAYER_COPY };

struct walk {
    const struct files_config *config; /* NULL: outside of the overlay */
    char *copy;                        /* the same text as `path`, after the path of FILES_WRITTEN */
    char *path;                        /* [PATH_MAX]; "" is the root */
    size_t length;                     /* of path */
    size_t hidden_from; /* length of the path from which on nothing real is seen; SIZE_MAX: all of it is */
    bool steered;
    char *rest; /* what is still to be walked, in a buffer of PATH_MAX */
    /* What the last look-up found. */
    enum layer layer;
    mode_t mode;
    int error; /* of LAYER_NONE */
};

/* Walks from walk->path along the path in `buffer`. 0, or what errno should be: in any case walk->path is as far as it
 * came. What is absent at the end is no error. */
int walk_along(struct walk *walk, char buffer[PATH_MAX], enum place_follow follow, enum place_last *last,
               bool *ends_in_slash) __attribute__((warn_unused_result));

#endif

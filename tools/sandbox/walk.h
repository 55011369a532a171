/*
 * walk.h - from name to name along a path.
 *
 * The walk is the kernel's own, on what the program sees: two names of one file meet in one canonical path, and that
 * path, below FILES_WRITTEN, is where the copy lies. A directory that only the run has made is really entered where it
 * lies, so that a relative path and a descriptor of it are recognised by that; for the program it is where it seems to
 * be.
 */
#ifndef DDPRUN_TOOLS_SANDBOX_WALK_H
#define DDPRUN_TOOLS_SANDBOX_WALK_H

#include "tools/sandbox/overlay.h"

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

/*
 * Walks from walk->path along the path in `buffer`. 0, or what errno should be: in any case walk->path is as far as it
 * came. What is absent at the end is no error.
 */
int walk_along(struct walk *walk, char buffer[PATH_MAX], enum place_follow follow, enum place_last *last,
               bool *ends_in_slash) __attribute__((warn_unused_result));

#endif

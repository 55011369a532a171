/*
 * file_read.h - reads files that options name: a plan, a list of hosts, a secret.
 *
 * A helper (helper.h) opens and reads, because the file may be a FIFO without a writer, or lie on a server that does
 * not answer: signals that ask for the end are seen, and a helper without progress for two seconds is given up. Links
 * of other users are not followed (path_walk()). A file is a regular one; of `-`, which is stdin, /dev/stdin and
 * /dev/fd/N it may be a pipe, as that of a shell's <(command). Supervisor's thread.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_FILE_READ_H
#define DDPRUN_LAUNCHER_COMMON_FILE_READ_H

#include "launcher/common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/*
 * All of the file, malloc'ed, with a NUL after its *count bytes; *status: what fstat() says of it. Both pointers may
 * be NULL. NULL with errno, for file_why(): EFBIG: it has more than `most` bytes.
 */
char *file_read(const char *path, size_t most, size_t *count, struct stat *status);

/* The message of a failed file_read(), whose errno is still set; returns false. Before and after the path: "the plan
 * ",
 * ", in --plan". Where a signal has ended the reading, its exit code. */
bool file_read_refused(const char *before, const char *path, const char *behind, struct error *error);

/* What errno of this file and of output/whole_file.h means, for messages: "it is a folder". */
const char *file_why(int cause);

/* ---- path_walk.c: whether another user can change, or has chosen, where a path leads ---- */
/*
 * Other users are all but this process's, root, and the uid that the system shows for root where a user namespace has
 * none (user_namespaces(7)). A group that may write is another user, but for root's and the user's private group. Any
 * thread.
 */

enum path_rule {
    PATH_READ,  /* no link of another user in a sticky folder, or one that others may write to: protected_symlinks of
                   proc(5), which is not on everywhere */
    PATH_WRITE, /* nor a file or FIFO: protected_regular, protected_fifos */
    PATH_KEPT,  /* no component that another user can replace: the owner of a folder may, sticky or not (inode(7)) */
};

/*
 * Follows the path, component by component and through links. The name behind all links, malloc'ed; what is not there
 * ends the way. *refused: the name of the component that breaks the rule, where the way ends.
 */
char *path_walk(const char *path, enum path_rule rule, bool *refused);

/* Whether another user can put another entry into the folder in place of one of `owner`. */
bool others_can_replace(const struct stat *folder, uid_t owner);

bool owner_is_other(uid_t owner);

#endif

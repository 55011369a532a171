/*
 * path_walk.h - whether another user can change, or has chosen, where a path leads. Any thread.
 *
 * Other users are all but this process's, root, and the uid that the system shows for root where a user namespace has
 * none (user_namespaces(7)). A group that may write is another user, but for root's and the user's private group.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_PATH_WALK_H
#define DDPRUN_LAUNCHER_COMMON_PATH_WALK_H

#include <stdbool.h>
#include <sys/stat.h>

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

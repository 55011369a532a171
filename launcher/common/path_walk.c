/* path_walk.c - see file_read.h. */
#include "launcher/common/file_read.h"

#include "launcher/common/xcalloc.h"

#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINKS_AT_MOST = 40 }; /* the system follows no more (path_resolution(7)) */

bool
owner_is_other(uid_t owner)
{
    struct stat of_root; /* the kernel's own files are root's, whatever uid is shown for it */
    return owner != geteuid() && owner != 0 && (stat("/proc/sys", &of_root) != 0 || of_root.st_uid != owner);
}

/* Of the user's name, and without other members. */
static bool
is_private_group(gid_t id)
{
    const struct passwd *user = getpwuid(geteuid());
    const struct group *group = user != NULL && user->pw_gid == id ? getgrgid(id) : NULL;
    return group != NULL && strcmp(group->gr_name, user->pw_name) == 0 &&
           (group->gr_mem[0] == NULL || (strcmp(group->gr_mem[0], user->pw_name) == 0 && group->gr_mem[1] == NULL));
}

static bool
is_shared(const struct stat *folder)
{
    return (folder->st_mode & S_IWOTH) != 0 ||
           ((folder->st_mode & S_IWGRP) != 0 && folder->st_gid != 0 && !is_private_group(folder->st_gid));
}

bool
others_can_replace(const struct stat *folder, uid_t owner)
{
    bool is_kept = (folder->st_mode & S_ISVTX) != 0 && !owner_is_other(owner);
    return owner_is_other(folder->st_uid) || (!is_kept && is_shared(folder));
}

static bool
breaks(enum path_rule rule, const struct stat *folder, const struct stat *entry)
{
    bool is_file = S_ISREG(entry->st_mode) || S_ISFIFO(entry->st_mode);
    if (rule == PATH_KEPT)
        return others_can_replace(folder, entry->st_uid);
    return (S_ISLNK(entry->st_mode) || (rule == PATH_WRITE && is_file)) && owner_is_other(entry->st_uid) &&
           ((folder->st_mode & S_ISVTX) != 0 || is_shared(folder));
}

char *
path_walk(const char *path, enum path_rule rule, bool *refused)
{
    struct stat folder, entry = {0};
    char target[PATH_MAX], *rest = xstrdup(path), *at = xstrdup(path[0] == '/' ? "/" : "");
    const char *left = rest;
    int links = 0;
    *refused = false;
    for (bool there = stat(path[0] == '/' ? "/" : ".", &folder) == 0; there && !*refused;) {
        left += strspn(left, "/");
        size_t length = strcspn(left, "/"), before = strlen(at);
        if (length == 0)
            break;
        char *next = xasprintf("%s%s%.*s", at, before > 0 && at[before - 1] != '/' ? "/" : "", (int)length, left);
        left += length;
        there = lstat(next, &entry) == 0;
        *refused = there && breaks(rule, &folder, &entry);
        ssize_t bytes = there && !*refused && S_ISLNK(entry.st_mode) && links++ < LINKS_AT_MOST
                            ? readlink(next, target, sizeof(target) - 1)
                            : -1;
        if (bytes < 0) {
            free(at);
            at = next;
            folder = entry;
            continue;
        }
        target[bytes] = '\0';
        char *joined = xasprintf("%s%s", target, left);
        free(rest);
        left = rest = joined;
        free(next);
        if (target[0] == '/') {
            free(at);
            at = xstrdup("/");
            there = stat("/", &folder) == 0;
        }
    }
    if (!*refused && left[0] != '\0') { /* after what is not there */
        char *whole = xasprintf("%s%s", at, left);
        free(at);
        at = whole;
    }
    free(rest);
    return at;
}

/*
 * descriptors.c - see descriptors.h.
 */
#include "launcher/cluster/descriptors.h"

#include "launcher/common/xcalloc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>

struct descriptors
descriptors_list(void)
{
    struct descriptors list = {0};
    size_t room = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || atoi(entry->d_name) == dirfd(folder))
            continue;
        if (list.count == room) {
            room = room * 2 + 32;
            list.fds = xrealloc(list.fds, room * sizeof(*list.fds));
        }
        list.fds[list.count++] = atoi(entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
    return list;
}

void
descriptors_free(struct descriptors *descriptors)
{
    free(descriptors->fds);
    *descriptors = (struct descriptors){0};
}

static bool
has(const struct descriptors *list, int fd)
{
    for (size_t i = 0; i < list->count; ++i) {
        if (list->fds[i] == fd)
            return true;
    }
    return false;
}

void
descriptors_keep_new(const struct descriptors *then)
{
    struct descriptors now = descriptors_list();
    for (size_t i = 0; then->count > 0 && i < now.count; ++i) {
        if (!has(then, now.fds[i]))
            (void)fcntl(now.fds[i], F_SETFD, FD_CLOEXEC);
    }
    descriptors_free(&now);
}

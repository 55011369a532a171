/* room.c - see room.h. */
#include "tools/common/room.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
room_number(const char *path, const char *name, uint64_t *number_p)
{
    char line[PATH_MAX];
    size_t length = strlen(name);
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        char *end = line, *digits = line + length;
        if (strncmp(line, name, length) == 0)
            *number_p = strtoull(digits, &end, 10);
        found = end > digits;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* What a control group and those around it leave; `most`, if that is less. Files that were read can be given back. */
static uint64_t
least_left(const char *root, char *group, const char *const names[3], uint64_t most)
{
    for (char *slash = group; slash != NULL;) {
        char path[2 * PATH_MAX];
        uint64_t limit, used = 0, files = 0;
        snprintf(path, sizeof(path), "%s%s/%s", root, group, names[0]);
        if (room_number(path, "", &limit)) {
            snprintf(path, sizeof(path), "%s%s/%s", root, group, names[1]);
            (void)room_number(path, "", &used);
            snprintf(path, sizeof(path), "%s%s/memory.stat", root, group);
            (void)room_number(path, names[2], &files);
            uint64_t taken = used > files ? used - files : 0, left = limit > taken ? limit - taken : 0;
            most = left < most ? left : most;
        }
        slash = strrchr(group, '/');
        if (slash != NULL)
            *slash = '\0';
    }
    return most;
}

/* The same of this process's control groups of version 2 and of version 1, for which `v1` may be NULL. */
static uint64_t
left_by_groups(const char *root, const char *const v2[3], const char *const v1[3], uint64_t most)
{
    char path[PATH_MAX], line[PATH_MAX], group[PATH_MAX];
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *at = strchr(line, ':'), *where = at != NULL ? strchr(at + 1, ':') : NULL;
        bool is_v2 = where == at + 1;
        bool is_v1 = !is_v2 && where != NULL && v1 != NULL && strncmp(at, ":memory:", 8) == 0;
        if (where == NULL || (!is_v2 && !is_v1))
            continue;
        where[strcspn(where, "\n")] = '\0';
        snprintf(group, sizeof(group), "/sys/fs/cgroup%s%s", is_v2 ? "" : "/memory",
                 strcmp(where + 1, "/") == 0 ? "" : where + 1);
        most = least_left(root, group, is_v2 ? v2 : v1, most);
    }
    if (file != NULL)
        fclose(file);
    return most;
}

uint64_t
room_available(const char *root)
{
    static const char *const v2[] = {"memory.max", "memory.current", "inactive_file "};
    static const char *const v1[] = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
    char path[PATH_MAX];
    uint64_t available = UINT64_MAX >> 10;
    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    (void)room_number(path, "MemAvailable:", &available);
    return left_by_groups(root, v2, v1, available << 10);
}

uint64_t
room_limit(const char *name)
{
    const char *const v2[] = {name, "", ""};
    return left_by_groups("", v2, NULL, UINT64_MAX);
}

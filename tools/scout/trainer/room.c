/*
 * room.c - how much main memory copies may take: what the machine has, and what the job's limits leave of it.
 *
 * Taking more would be answered by the end of a process, and not by an error.
 */
#include "tools/scout/trainer/scout.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number behind `name` in a file of lines "name number", or the whole first line if `name` is "". False: there is
 * none; "max" is no number. */
static bool
read_number(const char *path, const char *name, uint64_t *number_p)
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
        if (read_number(path, "", &limit)) {
            snprintf(path, sizeof(path), "%s%s/%s", root, group, names[1]);
            (void)read_number(path, "", &used);
            snprintf(path, sizeof(path), "%s%s/memory.stat", root, group);
            (void)read_number(path, names[2], &files);
            uint64_t taken = used > files ? used - files : 0, left = limit > taken ? limit - taken : 0;
            most = left < most ? left : most;
        }
        slash = strrchr(group, '/');
        if (slash != NULL)
            *slash = '\0';
    }
    return most;
}

uint64_t
room_available(const char *root)
{
    static const char *const v2[] = {"memory.max", "memory.current", "inactive_file "};
    static const char *const v1[] = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
    char path[PATH_MAX], line[PATH_MAX], group[PATH_MAX];
    uint64_t available = UINT64_MAX >> 10;
    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    (void)read_number(path, "MemAvailable:", &available);
    available <<= 10;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *at = strchr(line, ':'), *where = at != NULL ? strchr(at + 1, ':') : NULL;
        bool is_v2 = where == at + 1, is_v1 = !is_v2 && where != NULL && strncmp(at, ":memory:", 8) == 0;
        if (where == NULL || (!is_v2 && !is_v1))
            continue;
        where[strcspn(where, "\n")] = '\0';
        snprintf(group, sizeof(group), "/sys/fs/cgroup%s%s", is_v2 ? "" : "/memory",
                 strcmp(where + 1, "/") == 0 ? "" : where + 1);
        available = least_left(root, group, is_v2 ? v2 : v1, available);
    }
    if (file != NULL)
        fclose(file);
    return available;
}

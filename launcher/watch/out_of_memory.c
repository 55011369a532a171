/*
 * out_of_memory.c - see out_of_memory.h. The files: cgroups(7), Documentation/admin-guide/cgroup-v2.rst and
 * cgroup-v1/memory.rst of the kernel, proc_vmstat(5).
 */
#include "launcher/watch/out_of_memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The number after "oom_kill " in a file of such lines. False: no such line. */
static bool
read_kills(const char *path, uint64_t *kills)
{
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        found = sscanf(line, "oom_kill %" SCNu64, kills) == 1;
    if (file != NULL)
        fclose(file);
    return found;
}

/* In a control group's folder, or in the root's, which a container sees in its place. */
static bool
read_group(const char *root, const char *mount, const char *group, const char *name, uint64_t *kills)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s%s/%s", root, mount, group, name);
    if (read_kills(path, kills))
        return true;
    snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s/%s", root, mount, name);
    return read_kills(path, kills);
}

/* One line of /proc/self/cgroup: "0::/path", or "4:memory:/path". */
static bool
read_line(const char *root, char *line, uint64_t *kills)
{
    line[strcspn(line, "\n")] = '\0';
    char *kind = strchr(line, ':'), *group = kind != NULL ? strchr(kind + 1, ':') : NULL;
    if (group == NULL)
        return false;
    *group++ = '\0';
    if (strcmp(line, "0:") == 0 && kind[1] == '\0')
        return read_group(root, "", group, "memory.events", kills);
    return strcmp(kind + 1, "memory") == 0 && read_group(root, "/memory", group, "memory.oom_control", kills);
}

uint64_t
out_of_memory_kills(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint64_t kills = 0;
    bool found = false;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        found = read_line(root, line, &kills);
    if (file != NULL)
        fclose(file);
    snprintf(path, sizeof(path), "%s/proc/vmstat", root);
    return found || read_kills(path, &kills) ? kills : 0;
}

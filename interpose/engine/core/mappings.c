/*
 * mappings.c - whether memory of this process is a file's, which other processes may map (/proc/self/maps).
 *
 * Called by annotate.c, for memory of the host: ranks would write their averages into one another's tensors there.
 */
#include "interpose/engine/core/core.h"

/* Anonymous memory and descriptors without a name, which no other rank can open, have such names in the kernel's list;
 * drivers' devices are in /dev, too, but for what lies in /dev/shm. */
static bool
is_own(const char *path)
{
    bool device = strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0;
    return path[0] != '/' || device || strncmp(path, "/memfd:", 7) == 0;
}

bool
mapping_of_file(uint64_t begin, uint64_t end, char *file, size_t file_bytes)
{
    char line[4096 + 128], flags[8], path[4096];
    unsigned long from, to;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && !found && fgets(line, sizeof(line), maps) != NULL) {
        path[0] = '\0';
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %4095[^\n]", &from, &to, flags, path) < 3 || to <= begin ||
            from >= end)
            continue;
        found = flags[3] == 's' && !is_own(path);
    }
    if (maps != NULL)
        fclose(maps);
    if (found)
        snprintf(file, file_bytes, "%s", path);
    return found;
}

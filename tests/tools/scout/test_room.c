/*
 * Main memory that copies may take (tools/common/room.c) is what the machine has, and no more than the
 * tightest control group leaves, of either version, on the way up from the process's own; files that were read count as
 * free.
 */
#include "tests/lib/test.h"
#include "tools/common/room.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char root[] = "/tmp/test_room.XXXXXX";

/* A file below the root, with its folders. */
static void
put(const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        (void)mkdir(path, 0700);
    }
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

struct row {
    const char *what, *group;
    const char *files[8]; /* names and texts in turn */
    uint64_t mib;
};

static const struct row rows[] = {
    {"the machine's", "0::/\n", {NULL}, 1000},
    {"a limit", "0::/job/step\n", {"/sys/fs/cgroup/job/step/memory.max", "104857600\n"}, 100},
    {"no limit", "0::/job/step\n", {"/sys/fs/cgroup/job/step/memory.max", "max\n"}, 1000},
    {"a limit further up, of which a part is used, a part of that by files",
     "0::/job/step\n",
     {"/sys/fs/cgroup/job/step/memory.max", "max\n", "/sys/fs/cgroup/job/memory.max", "104857600\n",
      "/sys/fs/cgroup/job/memory.current", "52428800\n", "/sys/fs/cgroup/job/memory.stat",
      "anon 1\ninactive_file 10485760\n"},
     60},
    {"more than the limit is used",
     "0::/job\n",
     {"/sys/fs/cgroup/job/memory.max", "1048576\n", "/sys/fs/cgroup/job/memory.current", "2097152\n"},
     0},
    {"a limit of the first version",
     "9:cpu:/a\n8:memory:/job\n0::/\n",
     {"/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "104857600\n",
      "/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "31457280\n"},
     70},
};

TABLE_TEST(available, rows)
{
    const struct row *row = &rows[_i];
    char command[64];
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(root));
    put("/proc/meminfo", "MemTotal: 4096000 kB\nMemAvailable:    1024000 kB\n");
    put("/proc/self/cgroup", row->group);
    for (size_t i = 0; i < 8 && row->files[i] != NULL; i += 2)
        put(row->files[i], row->files[i + 1]);
    uint64_t bytes = room_available(root);
    snprintf(command, sizeof(command), "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
    ck_assert_msg(bytes >> 20 == row->mib, "%s: %llu MiB", row->what, (unsigned long long)(bytes >> 20));
}

/* run.c - see run.h. */
#include "tools/check/format/run.h"

#include "tools/common/direct.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

const char *
check_role_name(uint32_t role)
{
    static const char *const names[CHECK_ROLES] = {
        [CHECK_PARAMETER] = "parameter", [CHECK_GRADIENT] = "gradient", [CHECK_BUFFER] = "buffer",
        [CHECK_MEAN] = "mean",           [CHECK_MEMORY] = "memory",     [CHECK_STATE] = "state",
        [CHECK_REDUCE] = "reduction"};
    return role < CHECK_ROLES ? names[role] : "?";
}

bool
check_is_in_place_of_parameter(const struct check_tensor *tensor)
{
    return tensor->role == CHECK_MEMORY && tensor->group == 1;
}

bool
check_run_load(const char *path, struct check_run *run)
{
    bool ok = direct_load(path, run, sizeof(*run));
    run->reference[sizeof(run->reference) - 1] = run->results[sizeof(run->results) - 1] = '\0';
    return ok;
}

static void
name_rows(const char *results, int rank, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s-%d", results, rank);
}

int
check_rows_open(const char *results, int rank)
{
    char path[PATH_MAX];
    name_rows(results, rank, path);
    return open_direct(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

bool
check_rows_add(int fd, const struct check_row *row)
{
    return direct_write(fd, row, sizeof(*row), -1);
}

struct check_row *
check_rows_load(const char *results, int rank, size_t *count_p)
{
    char path[PATH_MAX];
    struct stat file;
    name_rows(results, rank, path);
    *count_p = 0;
    OWNED_FD int fd = open_direct(path, O_RDONLY | O_CLOEXEC, 0);
    size_t count = fd >= 0 && fstat(fd, &file) == 0 ? (size_t)file.st_size / sizeof(struct check_row) : 0;
    OWNED struct check_row *rows = count > 0 ? malloc(count * sizeof(*rows)) : NULL;
    if (rows == NULL || !direct_read(fd, rows, count * sizeof(*rows), -1))
        return NULL;
    *count_p = count;
    return HANDED_ON(rows);
}

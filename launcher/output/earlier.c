/* earlier.c - see output.h. Two jobs that begin at once may both find no file here: the lock of open_file() decides. */
#include "launcher/output/output.h"

#include "base/protocol.h"
#include "launcher/common/file_read.h"
#include "launcher/common/xcalloc.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

enum { FOLDERS_AT_MOST = 100000, PLACE_BYTES = 32 };

/* Of a file that ranks write, "rank-3.out"; -1: the name is no such. */
static int
rank_of(const char *name)
{
    static const char beginning[] = "rank-";
    const char *digits = name + sizeof(beginning) - 1;
    if (strncmp(name, beginning, sizeof(beginning) - 1) != 0 || *digits < '0' || *digits > '9')
        return -1;
    char *end;
    unsigned long rank = strtoul(digits, &end, 10);
    bool is_output = strcmp(end, ".out") == 0 || strcmp(end, ".err") == 0;
    return is_output && rank < INT_MAX ? (int)rank : -1;
}

/* Links, pipes and what another user owns stay: open_file() says what is wrong with them. */
static bool
is_earlier(int folder, const char *name, const struct output_ranks *ranks)
{
    struct stat file;
    int rank = rank_of(name);
    bool is_of_larger_job = ranks->first == 0 && rank >= ranks->world_size;
    bool is_own = rank >= ranks->first && rank < ranks->first + ranks->count;
    if (rank < 0 || !(is_own || is_of_larger_job))
        return false;
    return fstatat(folder, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid();
}

static void
find_earlier(int folder, const struct output_ranks *ranks, struct word_list *names)
{
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = copy >= 0 ? fdopendir(copy) : NULL;
    if (all == NULL && copy >= 0)
        close(copy);
    if (all == NULL)
        return;
    const struct dirent *entry = readdir(all);
    while (entry != NULL) {
        if (is_earlier(folder, entry->d_name, ranks))
            word_list_add(names, xstrdup(entry->d_name));
        entry = readdir(all);
    }
    closedir(all);
}

static bool
any_is_written(int folder, const struct word_list *names)
{
    bool is_written = false;
    for (size_t i = 0; i < names->count && !is_written; ++i) {
        int fd = openat(folder, names->list[i], O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
        is_written = fd >= 0 && output_is_of_running_job(fd);
        if (fd >= 0)
            close(fd);
    }
    return is_written;
}

/* Whether the folder is the user's own, and has none of these files. */
static bool
has_room(int folder, const char *place, const struct word_list *names)
{
    struct stat file;
    if (fstatat(folder, place, &file, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(file.st_mode) || file.st_uid != geteuid())
        return false;
    for (size_t i = 0; i < names->count; ++i) {
        char *path = xasprintf("%s/%s", place, names->list[i]);
        bool is_there = fstatat(folder, path, &file, AT_SYMLINK_NOFOLLOW) == 0;
        free(path);
        if (is_there)
            return false;
    }
    return true;
}

/* The first folder with room: a new one, or, where each rank has a launcher, the one that another of them has made.
 * Returns 0, or errno. */
static int
find_place(int folder, const struct word_list *names, bool has_others, char place[PLACE_BYTES])
{
    for (int number = 1; number < FOLDERS_AT_MOST; ++number) {
        snprintf(place, PLACE_BYTES, "earlier-%d", number);
        bool is_new = mkdirat(folder, place, 0777) == 0;
        if (!is_new && errno != EEXIST)
            return errno;
        if (is_new || (has_others && has_room(folder, place, names)))
            return 0;
    }
    return ENOSPC;
}

/* Returns 0, or errno. */
static int
move_all(int folder, const struct word_list *names, const char *place)
{
    for (size_t i = 0; i < names->count; ++i) {
        char *path = xasprintf("%s/%s", place, names->list[i]);
        bool is_moved = renameat(folder, names->list[i], folder, path) == 0;
        free(path);
        if (!is_moved)
            return errno;
    }
    return 0;
}

static bool
set_aside(int folder, const char *dir, const struct output_ranks *ranks, const struct word_list *names,
          struct error *error)
{
    char place[PLACE_BYTES];
    if (names->count == 0)
        return true;
    if (any_is_written(folder, names))
        return output_refuse_running(dir, error);
    int cause = find_place(folder, names, ranks->count < ranks->world_size, place);
    if (cause == 0)
        cause = move_all(folder, names, place);
    return cause == 0 || error_set(error, DDPRUN_EXIT_FAILURE,
                                   "cannot move the files of an earlier run within %s, in --output: %s; name another "
                                   "folder",
                                   dir, file_why(cause));
}

bool
output_set_aside(const struct options *options, const struct output_ranks *ranks, struct error *error)
{
    if (options->output != OUTPUT_FILES)
        return true;
    int folder = open(options->output_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return true; /* output_choose() says why */
    struct word_list names = {0};
    find_earlier(folder, ranks, &names);
    bool ok = set_aside(folder, options->output_dir, ranks, &names, error);
    words_free(names.list);
    close(folder);
    return ok;
}

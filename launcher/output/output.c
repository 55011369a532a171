/* output.c - see output.h. */
#include "launcher/output/output.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/whole_file.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

bool
output_prepare_folder(const char *dir, const char *option, bool only_looks, struct error *error)
{
    struct stat folder;
    int cause = 0;
    if (stat(dir, &folder) != 0 && errno == ENOENT) {
        if (only_looks) {
            char *copy = xstrdup(dir);
            cause = access(dirname(copy), W_OK | X_OK) != 0 ? errno : 0;
            free(copy);
        } else if (mkdir(dir, 0777) != 0 && errno != EEXIST) { /* another rank's ddprun may have made it meanwhile */
            cause = errno;
        }
        if (cause != 0)
            return error_set(error, DDPRUN_EXIT_USAGE, "cannot make the folder %s, in %s: %s; name a place that exists",
                             dir, option, strerror(cause));
        if (only_looks)
            return true;
    }
    if (stat(dir, &folder) != 0 || !S_ISDIR(folder.st_mode) || access(dir, W_OK | X_OK) != 0)
        return error_set(error, DDPRUN_EXIT_USAGE, "%s, in %s, is not a writable folder; name a writable one", dir,
                         option);
    return true;
}

bool
output_prepare(const struct options *options, struct error *error)
{
    return options->output != OUTPUT_FILES ||
           output_prepare_folder(options->output_dir, "--output", options->dry_run, error);
}

/* stdout and stderr go to the same place, as after 2>&1. */
static bool
is_same_place(void)
{
    struct stat output, cause;
    return fstat(STDOUT_FILENO, &output) == 0 && fstat(STDERR_FILENO, &cause) == 0 && output.st_dev == cause.st_dev &&
           output.st_ino == cause.st_ino;
}

/* Which streams pass through a relay. A single rank has no other ranks whose lines could get between its own.
 * `always`: all, for their lines are changed. */
static void
choose_pipes(int rank_count, bool always, struct spawn_order *order)
{
    bool several = rank_count > 1;
    order->pipe_output = always || order->rank > 0 || (several && !isatty(STDOUT_FILENO));
    order->pipe_error = always || order->rank > 0 || (several && !isatty(STDERR_FILENO));
    order->one_pipe = order->rank == 0 && order->pipe_output && order->pipe_error && is_same_place();
}

bool
output_is_of_running_job(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool
output_refuse_running(const char *dir, struct error *error)
{
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "a running job writes its output into %s, in --output; name another folder", dir);
}

static bool
open_file(const char *dir, int rank, const char *ending, int *fd_p, struct error *error)
{
    char path[PATH_MAX];
    int fd = -1;
    if (snprintf(path, sizeof(path), "%s/rank-%d.%s", dir, rank, ending) >= (int)sizeof(path))
        errno = ENAMETOOLONG;
    else if (whole_file_is_foreign(path))
        errno = ELOOP;
    else /* a FIFO without a reader is an error */
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s/rank-%d.%s, in --output: %s; name another folder",
                         dir, rank, ending, file_why(errno));
    if (output_is_of_running_job(fd)) {
        close(fd);
        return output_refuse_running(dir, error);
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    *fd_p = fd;
    return true;
}

static int
nowhere(void)
{
    return open("/dev/null", O_WRONLY | O_CLOEXEC);
}

bool
output_choose(const struct options *options, int rank_count, struct spawn_order *order, struct error *error)
{
    order->output_file = order->error_file = order->output_copy = order->error_copy = -1;
    switch (options->output) {
    case OUTPUT_FILES:
        order->pipe_output = order->pipe_error = options->tee;
        if (open_file(options->output_dir, order->rank, "out", options->tee ? &order->output_copy : &order->output_file,
                      error) &&
            open_file(options->output_dir, order->rank, "err", options->tee ? &order->error_copy : &order->error_file,
                      error))
            return true;
        output_close(order);
        return false;
    case OUTPUT_NONE:
        order->output_file = nowhere();
        order->error_file = nowhere();
        break;
    case OUTPUT_RANK0:
    case OUTPUT_TAGGED:
        choose_pipes(rank_count, options->timestamps, order);
        bool by_plan = options->plan != NULL && !options->verbose; /* all ranks run the whole program */
        if ((options->output != OUTPUT_TAGGED || by_plan) && order->rank > 0) {
            order->pipe_output = false;
            order->output_file = nowhere();
        }
        break;
    }
    return true;
}

/* Of a full place a program that does not look at what it writes would lose lines in silence. */
static void
warn_full(const char *dir, const char *option)
{
    struct statvfs place;
    if (dir != NULL && statvfs(dir, &place) == 0 && place.f_blocks > 0 && place.f_bavail == 0)
        message_line("no room is left in %s, in --%s: the ends of its files may be missing", dir, option);
}

void
output_warn_full(const struct options *options, const char *trace_dir)
{
    warn_full(options->output == OUTPUT_FILES ? options->output_dir : NULL, "output");
    warn_full(trace_dir, "trace");
}

void
output_close(struct spawn_order *order)
{
    int *files[] = {&order->output_file, &order->error_file, &order->output_copy, &order->error_copy};
    for (int i = 0; i < 4; ++i) {
        if (*files[i] >= 0)
            close(*files[i]);
        *files[i] = -1;
    }
}

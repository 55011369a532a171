/*
 * core.c - what all of the recorder shares: its state, the lock that one operation at a time passes, the driver's
 * table, and the end of the process.
 */
#include "tools/check/format/run.h"
#include "tools/scout/trainer/scout.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct scout_state scout_state;

static pthread_mutex_t passing = PTHREAD_MUTEX_INITIALIZER; /* from `begin` to `end` of an operation */

/* In a run of `ddprun check --plan` the launcher is to know why. */
static void
note_for_check(const char *why)
{
    const char *path = getenv(DDPRUN_ENV_CHECK_RUN), *rank = getenv(DDPRUN_ENV_RANK);
    struct check_run *run = path != NULL ? malloc(sizeof(*run)) : NULL;
    int fd = -1;
    if (run != NULL && check_run_load(path, run))
        fd = check_rows_open(run->results, rank != NULL ? atoi(rank) : 0);
    struct check_row row = {.kind = CHECK_ROW_STOPPED, .value = DDPRUN_EXIT_USAGE};
    snprintf(row.text, sizeof(row.text), "%s", why);
    if (fd >= 0 && check_rows_add(fd, &row))
        close(fd);
    free(run);
}

void
scout_stop(const char *format, ...)
{
    struct rank_status *status = scout_state.status;
    va_list args;
    va_start(args, format);
    vsnprintf(status->failure, sizeof(status->failure), format, args);
    va_end(args);
    atomic_store(&status->stage, RANK_STAGE_FAILED);
    note_for_check(status->failure);
    _exit(DDPRUN_EXIT_FAILURE);
}

void *
scout_grown(void *list, size_t count, size_t item)
{
    if ((count & (count - 1)) == 0)
        list = realloc(list, (count == 0 ? 1 : 2 * count) * item);
    if (list == NULL)
        scout_stop("out of memory");
    memset((char *)list + count * item, 0, item);
    return list;
}

void *
scout_zeroed(size_t count, size_t item)
{
    void *zeros = calloc(count > 0 ? count : 1, item);
    if (zeros == NULL)
        scout_stop("out of memory");
    return zeros;
}

void
scout_require(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    struct comm_error error;
    (void)driver_fail(&scout_state.driver, result, what, &error);
    scout_stop("%s", error.text);
}

/* Fills the driver's table. Ends the process if the program has not used CUDA, or a function is missing. */
static void
fill_driver(void)
{
    struct comm_error error;
    if (scout_state.services->driver_function("cuInit", 2000) == NULL)
        scout_stop("the program has not used CUDA, and ddprun scout looks at work on the device");
    if (!driver_fill(&scout_state.driver, scout_state.services->driver_function, &error))
        scout_stop("%s", error.text);
}

void
scout_ensure_driver(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, fill_driver);
}

void
scout_lock(void)
{
    pthread_mutex_lock(&passing);
}

void
scout_unlock(void)
{
    pthread_mutex_unlock(&passing);
}

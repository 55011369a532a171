/*
 * core.c - what all of the recorder shares: its state, the lock that one operation at a time passes, the driver's
 * table, lists of ranges, and the end of the process.
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
    int fd =
        run != NULL && check_run_load(path, run) ? check_rows_open(run->results, rank != NULL ? atoi(rank) : 0) : -1;
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

static void
fill_driver(void)
{
    struct comm_error error;
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

static atomic_int captures;

void
captures_begin(bool done)
{
    atomic_fetch_add(&captures, done);
}

void
captures_end(bool is_over)
{
    int open = atomic_load(&captures); /* 0: it began before this process was the rank */
    while (is_over && open > 0 && !atomic_compare_exchange_weak(&captures, &open, open - 1)) {
    }
}

bool
captures_are_open(void)
{
    return atomic_load_explicit(&captures, memory_order_relaxed) != 0;
}

bool
captures_have(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return captures_are_open() && scout_state.driver.cuStreamIsCapturing_p(stream, &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* ---- sorted, disjoint ranges of bytes, as the log has them ---- */

void
ranges_append(struct scout_ranges *list, uint64_t lo, uint64_t hi)
{
    struct scout_range *last = list->count > 0 ? &list->items[list->count - 1] : NULL;
    if (last != NULL && lo <= last->hi)
        last->hi = hi > last->hi ? hi : last->hi;
    else if (hi > lo)
        *SCOUT_GROWN(list->items, list->count) = (struct scout_range){lo, hi};
}

struct scout_ranges
ranges_merged(const struct scout_ranges *a, const struct scout_ranges *b)
{
    struct scout_ranges all = {0};
    for (uint32_t i = 0, k = 0; i < a->count || k < b->count;) {
        bool takes_a = k == b->count || (i < a->count && a->items[i].lo < b->items[k].lo);
        const struct scout_range *range = takes_a ? &a->items[i++] : &b->items[k++];
        ranges_append(&all, range->lo, range->hi);
    }
    return all;
}

void
ranges_clear(struct scout_ranges *list)
{
    free(list->items);
    *list = (struct scout_ranges){0};
}

/*
 * partition.c - see partition.h.
 *
 * partition_best() extends the best partition of the first i pieces to that of the first j. The candidates i for a
 * given j are of two kinds. Those whose own end is not after piece j is ready (a prefix of all, because f and ready
 * never decrease) all start the last bucket at ready(j): of them the last one, whose bucket is the smallest, is best.
 * For the others the channel is busy, and f(i) + cost(S(j) - S(i)) is wanted, S being the bytes up to there. On one
 * linear segment of the cost that is (f(i) - slope S(i)) + (a term of j), and the i whose bucket's size lies in the
 * segment are a window that only moves forward with j: its least key is kept by a monotone queue, as for any sliding
 * minimum. Nothing is assumed of the cost but that it never decreases, so this is exact for a measured table.
 */
#include "bucketing/partition.h"

#include "base/assertion.h"

#include <stdbool.h>
#include <stdlib.h>

/* What is best for the first j pieces. */
struct prefix {
    int64_t end_fs;    /* when their last all-reduce ends */
    size_t last_begin; /* first piece of their last bucket */
    size_t run_begin;  /* first piece of the run of equal types that piece j - 1 lies in */
    uint64_t bytes;    /* of all of them */
};

/* The candidates whose last bucket's size lies in one segment, in rising order of key and of index. */
struct window {
    size_t *items; /* room for all */
    size_t head, tail;
    size_t next; /* the first candidate that has not entered */
};

static int64_t
ready_fs(const struct ready_piece *piece)
{
    return piece->ready_ns * COST_FS_PER_NS;
}

static int64_t
later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

enum partition_status
partition_check(const struct ready_piece *pieces, size_t count, const struct cost *cost)
{
    int64_t last_ns = 0;
    uint64_t bytes = 0, run_bytes = 0;
    __int128 most_fs = 0; /* one bucket for each run of a type: the best ends no later */
    for (size_t i = 0; i < count; ++i) {
        if (pieces[i].ready_ns < last_ns)
            return PARTITION_NOT_ORDERED;
        last_ns = pieces[i].ready_ns;
        if (__builtin_add_overflow(bytes, pieces[i].bytes, &bytes))
            return PARTITION_TOO_LARGE;
        run_bytes += pieces[i].bytes;
        if (i + 1 == count || pieces[i].type != pieces[i + 1].type) {
            most_fs += cost_fs(cost, run_bytes);
            run_bytes = 0;
        }
    }
    most_fs += (__int128)last_ns * COST_FS_PER_NS;
    return most_fs < COST_MOST_FS ? PARTITION_OK : PARTITION_TOO_LARGE;
}

/* ---- the windows ---- */

static __int128
key_of(const struct prefix *prefix, const struct cost_segment *segment)
{
    return prefix->end_fs - (__int128)segment->fs_per_byte * prefix->bytes;
}

static void
enter(struct window *window, const struct prefix *best, const struct cost_segment *segment, size_t i)
{
    __int128 key = key_of(&best[i], segment);
    while (window->tail > window->head && key_of(&best[window->items[window->tail - 1]], segment) > key)
        --window->tail;
    window->items[window->tail++] = i;
}

/* Moves segment p's window on to piece j: out go buckets too large for it and candidates below `low`. */
static void
move_window(struct window *window, const struct prefix *best, const struct cost *cost, size_t p, size_t low, size_t j)
{
    const struct cost_segment *segment = &cost->segments[p];
    while (window->next < j && best[j].bytes - best[window->next].bytes >= segment->bytes)
        enter(window, best, segment, window->next++);

    bool last = p + 1 == cost->count;
    while (window->head < window->tail) {
        size_t i = window->items[window->head];
        if (i >= low && (last || best[j].bytes - best[i].bytes < cost->segments[p + 1].bytes))
            return;
        ++window->head;
    }
}

/* ---- the recurrence ---- */

static void
take_if_better(struct prefix *best, size_t j, size_t i, int64_t start_fs, const struct cost *cost)
{
    int64_t end_fs = start_fs + cost_fs(cost, best[j].bytes - best[i].bytes);
    /* Of equal ends the earliest cut, which gives the fewer, larger buckets. */
    if (end_fs < best[j].end_fs || (end_fs == best[j].end_fs && i < best[j].last_begin)) {
        best[j].end_fs = end_fs;
        best[j].last_begin = i;
    }
}

static void
begin_prefix(struct prefix *best, const struct ready_piece *pieces, size_t j)
{
    bool same_run = j > 1 && pieces[j - 1].type == pieces[j - 2].type;
    best[j] = (struct prefix){.end_fs = INT64_MAX,
                              .run_begin = same_run ? best[j - 1].run_begin : j - 1,
                              .bytes = best[j - 1].bytes + pieces[j - 1].bytes};
}

static void
fill_best(struct prefix *best, const struct ready_piece *pieces, size_t count, const struct cost *cost,
          struct window *windows)
{
    size_t idle_end = 0; /* candidates below it have ended when the piece at hand is ready */
    for (size_t j = 1; j <= count; ++j) {
        begin_prefix(best, pieces, j);
        int64_t ready = ready_fs(&pieces[j - 1]);
        while (idle_end < j && best[idle_end].end_fs <= ready)
            ++idle_end;
        if (idle_end > best[j].run_begin)
            take_if_better(best, j, idle_end - 1, ready, cost);

        size_t low = idle_end > best[j].run_begin ? idle_end : best[j].run_begin;
        for (size_t p = 0; p < cost->count; ++p) {
            move_window(&windows[p], best, cost, p, low, j);
            if (windows[p].head < windows[p].tail) {
                size_t i = windows[p].items[windows[p].head];
                take_if_better(best, j, i, best[i].end_fs, cost);
            }
        }
    }
}

/* best[0..count], or NULL when memory runs out. */
static struct prefix *
find_best(const struct ready_piece *pieces, size_t count, const struct cost *cost)
{
    struct prefix *best = calloc(count + 1, sizeof(*best));
    size_t *items = malloc((count + 1) * cost->count * sizeof(*items));
    if (best == NULL || items == NULL) {
        free(best);
        free(items);
        return NULL;
    }
    struct window windows[COST_SEGMENTS_AT_MOST] = {{0}};
    for (size_t p = 0; p < cost->count; ++p)
        windows[p].items = items + p * (count + 1);
    fill_best(best, pieces, count, cost, windows);
    free(items);
    return best;
}

/* ---- results ---- */

/*
 * Where the bucket that ends with piece j - 1 and must be done by deadline_fs begins: the first i that lets it. The one
 * that the best partition has always does, as long as best[j].end_fs <= deadline_fs.
 */
static size_t
widest_begin(const struct prefix *best, const struct ready_piece *pieces, const struct cost *cost, size_t j,
             int64_t deadline_fs)
{
    int64_t ready = ready_fs(&pieces[j - 1]);
    size_t low = best[j].run_begin, high = j - 1;
    while (low < high) { /* the first whose bucket is small enough to begin after its last piece is ready */
        size_t middle = low + (high - low) / 2;
        if (ready + cost_fs(cost, best[j].bytes - best[middle].bytes) <= deadline_fs)
            high = middle;
        else
            low = middle + 1;
    }
    for (size_t i = low; i < best[j].last_begin; ++i) {
        if (best[i].end_fs + cost_fs(cost, best[j].bytes - best[i].bytes) <= deadline_fs)
            return i;
    }
    return best[j].last_begin;
}

static size_t
merge_back(const struct prefix *best, const struct ready_piece *pieces, size_t count, const struct cost *cost,
           int64_t deadline_fs, unsigned margin, size_t *begins)
{
    size_t bucket_count = 0;
    for (size_t j = count; j > 0;) {
        int64_t early_fs = j < count ? deadline_fs - deadline_fs / 1000 * margin : deadline_fs;
        size_t i = widest_begin(best, pieces, cost, j, later(early_fs, best[j].end_fs));
        begins[bucket_count++] = i;
        deadline_fs -= cost_fs(cost, best[j].bytes - best[i].bytes);
        j = i;
    }
    return bucket_count;
}

/* Whether each bucket ends after the one before it, and the last with the last piece. */
static bool
are_ends_in_order(const size_t *bucket_ends, size_t bucket_count, size_t count)
{
    size_t end = 0;
    for (size_t k = 0; k < bucket_count; ++k) {
        if (bucket_ends[k] <= end)
            return false;
        end = bucket_ends[k];
    }
    return end == count;
}

/* Of the best partition, or of the one that merge_back() makes of it; `merges` is false: the next two mean nothing. */
static enum partition_status
find(const struct ready_piece *pieces, size_t count, const struct cost *cost, bool merges, int64_t slack_fs,
     unsigned margin, size_t *bucket_ends_p, size_t *bucket_count_p, int64_t *end_fs_p)
{
    enum partition_status status = partition_check(pieces, count, cost);
    if (status != PARTITION_OK)
        return status;
    struct prefix *best = find_best(pieces, count, cost);
    size_t *begins = malloc((count + 1) * sizeof(*begins)), bucket_count = 0; /* from the last bucket back */
    if (best != NULL && begins != NULL) {
        if (merges)
            bucket_count = merge_back(best, pieces, count, cost, best[count].end_fs + slack_fs, margin, begins);
        for (size_t end = count; end > 0 && !merges; end = best[end].last_begin)
            begins[bucket_count++] = best[end].last_begin;
        for (size_t k = 0; k < bucket_count; ++k)
            bucket_ends_p[bucket_count - 1 - k] = k == 0 ? count : begins[k - 1];
        ASSERT(are_ends_in_order(bucket_ends_p, bucket_count, count));
        *bucket_count_p = bucket_count;
        *end_fs_p = merges ? partition_end_fs(pieces, cost, bucket_ends_p, bucket_count) : best[count].end_fs;
    } else {
        status = PARTITION_NO_MEMORY;
    }
    free(best);
    free(begins);
    return status;
}

enum partition_status
partition_best(const struct ready_piece *pieces, size_t count, const struct cost *cost, size_t *bucket_ends_p,
               size_t *bucket_count_p, int64_t *end_fs_p)
{
    return find(pieces, count, cost, false, 0, 0, bucket_ends_p, bucket_count_p, end_fs_p);
}

enum partition_status
partition_merged(const struct ready_piece *pieces, size_t count, const struct cost *cost, int64_t slack_fs,
                 unsigned margin, size_t *bucket_ends_p, size_t *bucket_count_p, int64_t *end_fs_p)
{
    return find(pieces, count, cost, true, slack_fs, margin, bucket_ends_p, bucket_count_p, end_fs_p);
}

int64_t
partition_end_fs(const struct ready_piece *pieces, const struct cost *cost, const size_t *bucket_ends,
                 size_t bucket_count)
{
    int64_t end_fs = 0;
    size_t i = 0;
    for (size_t k = 0; k < bucket_count; ++k) {
        uint64_t bytes = 0;
        int64_t ready = 0;
        for (; i < bucket_ends[k]; ++i) {
            bytes += pieces[i].bytes;
            ready = later(ready, ready_fs(&pieces[i])); /* real times need not keep the order of the plan's */
        }
        end_fs = later(end_fs, ready) + cost_fs(cost, bytes);
        if (end_fs > COST_MOST_FS) /* no end that matters: a bad partition of much */
            end_fs = COST_MOST_FS;
    }
    return end_fs;
}

int64_t
partition_bound_fs(const struct ready_piece *pieces, size_t count, const struct cost *cost)
{
    int64_t bound_fs = 0;
    uint64_t remaining_bytes = 0;
    for (size_t i = count; i-- > 0;) {
        remaining_bytes += pieces[i].bytes;
        bound_fs = later(bound_fs, ready_fs(&pieces[i]) + cost_envelope_fs(cost, remaining_bytes));
    }
    return bound_fs;
}

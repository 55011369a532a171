/* waiting.c - see waiting.h. */
#include "launcher/common/waiting.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { LATEST = 20 /* of these, which rank is the last counts */ };

struct last_rank
last_rank_none(void)
{
    return (struct last_rank){.rank = -1, .waited = INFINITY, .next = INFINITY};
}

void
last_rank_add(struct last_rank *last, int rank, double waited)
{
    if (isnan(waited))
        return;
    ++last->count;
    last->sum += waited;
    if (waited < last->waited) {
        last->next = last->waited;
        last->waited = waited;
        last->rank = rank;
    } else {
        last->next = fmin(last->next, waited);
    }
}

double
last_rank_gap(const struct last_rank *last)
{
    return isfinite(last->next) ? last->next - last->waited : 0;
}

double
last_rank_waiting(const struct last_rank *last)
{
    return last->count > 1 ? fmax(0, last->sum - last->count * last->waited) / (last->count - 1) : 0;
}

static int
compare_doubles(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

double
waiting_median(double *values, size_t count)
{
    size_t known = 0;
    for (size_t i = 0; i < count; ++i) {
        if (!isnan(values[i]))
            values[known++] = values[i];
    }
    if (known == 0)
        return NAN;
    qsort(values, known, sizeof(*values), compare_doubles);
    return (values[(known - 1) / 2] + values[known / 2]) / 2.0;
}

/* The rank that was last in more than half of them (Boyer and Moore's vote); -1: none was. In *hits_p in how many. */
static int
most_often_last(const struct last_rank *boundaries, size_t count, size_t *hits_p)
{
    int rank = -1;
    size_t lead = 0, hits = 0;
    for (size_t i = 0; i < count; ++i) {
        if (lead == 0)
            rank = boundaries[i].rank;
        lead += boundaries[i].rank == rank ? 1 : -(size_t)1;
    }
    for (size_t i = 0; i < count; ++i)
        hits += boundaries[i].rank == rank;
    *hits_p = hits;
    return 2 * hits > count ? rank : -1;
}

/* By how much it was the last in three of four of them; 0: in fewer. */
static double
gap_of(const struct last_rank *boundaries, size_t count, int rank)
{
    double gaps[LATEST];
    for (size_t i = 0; i < count; ++i)
        gaps[i] = boundaries[i].rank == rank ? last_rank_gap(&boundaries[i]) : 0;
    qsort(gaps, count, sizeof(gaps[0]), compare_doubles);
    return gaps[count / 4];
}

struct waiting
waiting_of(const struct last_rank *boundaries, size_t count, double least)
{
    struct waiting found = {.straggler = -1, .now_latest = count < LATEST ? count : LATEST};
    struct last_rank counted[WAITING_WINDOW];
    double exposed[WAITING_WINDOW];
    for (size_t i = 0; i < count; ++i) {
        if (boundaries[i].control)
            continue;
        counted[found.count] = boundaries[i];
        exposed[found.count++] = boundaries[i].waited;
        found.waiting += last_rank_waiting(&boundaries[i]);
    }
    found.exposed = waiting_median(exposed, found.count);
    found.waiting /= found.count > 0 ? (double)found.count : 1;
    found.last = most_often_last(counted, found.count, &found.last_count);
    int rank = most_often_last(boundaries, found.now_latest, &found.now_count);
    bool is_known = found.count >= WAITING_LEAST && boundaries[0].count > 1;
    if (!is_known || rank < 0 || gap_of(boundaries, found.now_latest, rank) < least)
        return found;
    size_t latest = found.now_latest;
    found.straggler = found.last = rank;
    found.last_count = found.now_count = found.now_latest = 0;
    for (size_t i = 0; i < latest; ++i) {
        found.now_latest += !boundaries[i].control;
        found.now_count += !boundaries[i].control && boundaries[i].rank == rank;
    }
    for (size_t i = 0; i < found.count; ++i)
        found.last_count += counted[i].rank == rank;
    return found;
}

const char *
waiting_ms_text(double ms, char text[32])
{
    snprintf(text, 32, ms < 1000.0 ? "%.3g" : "%.0f", ms);
    return text;
}

const char *
waiting_text(const struct waiting *waiting, double ms, char text[WAITING_TEXT_BYTES])
{
    char mean[32], now[48] = "";
    waiting_ms_text(waiting->waiting / ms, mean);
    if (4 * waiting->last_count < 3 * waiting->count)
        snprintf(now, sizeof(now), ", and in %zu of the latest %zu", waiting->now_count, waiting->now_latest);
    if (waiting->straggler >= 0)
        snprintf(text, WAITING_TEXT_BYTES, "waiting for rank %d: %s ms per step, last to arrive in %zu of %zu steps%s",
                 waiting->straggler, mean, waiting->last_count, waiting->count, now);
    else if (waiting->last >= 0)
        snprintf(text, WAITING_TEXT_BYTES,
                 "waiting for each other: %s ms per step; rank %d arrived last in %zu of %zu measured steps", mean,
                 waiting->last, waiting->last_count, waiting->count);
    else
        snprintf(text, WAITING_TEXT_BYTES, "waiting for each other: %s ms per step", mean);
    return text;
}

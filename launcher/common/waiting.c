/* waiting.c - see waiting.h. */
#include "launcher/common/waiting.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

/* The rank that was last in more than half of them (Boyer and Moore's vote); -1: none was. */
static int
most_often_last(const struct last_rank *boundaries, size_t count)
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
    return 2 * hits > count ? rank : -1;
}

/* By how much it was the last in three of four of them; 0: in fewer. */
static double
gap_of(const struct last_rank *boundaries, size_t count, int rank)
{
    double gaps[WAITING_LATEST];
    for (size_t i = 0; i < count; ++i)
        gaps[i] = boundaries[i].rank == rank ? last_rank_gap(&boundaries[i]) : 0;
    qsort(gaps, count, sizeof(gaps[0]), compare_doubles);
    return gaps[count / 4];
}

void
rank_waits_add(struct rank_waits *waits, int rank, double waited, const struct last_rank *last)
{
    waits->sum += waited - last->waited;
    waits->last_count += last->rank == rank;
}

double
waiting_least(double step, double ms)
{
    return fmax(0.1 * step, ms);
}

void
waiting_find_straggler(struct waiting *waiting, const struct last_rank *latest, size_t count)
{
    size_t now = count < WAITING_LATEST ? count : WAITING_LATEST;
    int rank = most_often_last(latest, now);
    waiting->straggler = -1;
    if (waiting->count < WAITING_LEAST || latest[0].count < 2 || rank < 0 || gap_of(latest, now, rank) < waiting->least)
        return;
    waiting->straggler = rank;
    waiting->now_count = waiting->now_latest = 0;
    for (size_t i = 0; i < now; ++i) {
        waiting->now_latest += !latest[i].control;
        waiting->now_count += !latest[i].control && latest[i].rank == rank;
    }
}

void
waiting_take(struct waiting *waiting, const struct rank_waits *ranks, size_t count)
{
    double sum = 0;
    size_t others = count - (waiting->straggler >= 0);
    for (size_t r = 0; r < count; ++r)
        sum += (int)r != waiting->straggler ? ranks[r].sum : 0;
    bool is_known = waiting->count >= WAITING_LEAST && count > 1;
    waiting->waiting = is_known ? sum / (double)(others * waiting->count) : NAN;
    waiting->matters = waiting->straggler >= 0 || waiting->waiting >= waiting->least; /* a NAN is not */
    waiting->exposed = waiting->count > 0 ? waiting->exposed / (double)waiting->count : NAN;
    waiting->last_count = waiting->straggler >= 0 ? ranks[waiting->straggler].last_count : 0;
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
    else
        snprintf(text, WAITING_TEXT_BYTES, "waiting for each other: %s ms per step", mean);
    return text;
}

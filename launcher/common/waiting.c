/*
 * waiting.c - see waiting.h.
 */
#include "launcher/common/waiting.h"

#include <math.h>
#include <stdbool.h>
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

/* The rank that was last in more than half of them, if there is one (Boyer and Moore's vote). */
static int
most_often_last(const struct last_rank *boundaries, size_t count)
{
    int rank = -1;
    size_t lead = 0;
    for (size_t i = 0; i < count; ++i) {
        if (lead == 0)
            rank = boundaries[i].rank;
        lead += boundaries[i].rank == rank ? 1 : -(size_t)1;
    }
    return rank;
}

struct waiting
waiting_of(const struct last_rank *boundaries, size_t count, double least)
{
    size_t latest = count < LATEST ? count : LATEST, hits = 0;
    struct waiting found = {.straggler = -1};
    double exposed[WAITING_WINDOW], gaps[LATEST];
    for (size_t i = 0; i < count; ++i) {
        if (boundaries[i].control)
            continue;
        exposed[found.count++] = boundaries[i].waited;
        found.waiting += last_rank_waiting(&boundaries[i]);
    }
    found.exposed = waiting_median(exposed, found.count);
    found.waiting /= found.count > 0 ? (double)found.count : 1;
    int rank = most_often_last(boundaries, latest);
    for (size_t i = 0; i < latest; ++i) {
        bool is_last = boundaries[i].rank == rank;
        hits += is_last;
        gaps[i] = is_last ? last_rank_gap(&boundaries[i]) : 0;
    }
    qsort(gaps, latest, sizeof(gaps[0]), compare_doubles);
    if (found.count >= WAITING_LEAST && boundaries[0].count > 1 && gaps[latest / 4] >= least) {
        found.straggler = rank;
        found.last_count = hits;
        found.latest_count = latest;
    }
    return found;
}

/*
 * trial.c - see trial.h.
 */
#include "bucketing/trial.h"

#include <stdlib.h>

enum { PREFERRED_BY = 50, COST_SHARE = 200, PAUSE_LEAST = 1024, PAUSE_MOST = 1 << 20 };

static const int64_t most_ns = INT64_C(1800) * 1000 * 1000 * 1000; /* half an hour, as in cost.c */

bool
trial_overlaps(size_t step)
{
    return step / 2 % 2 == step % 2;
}

static int
compare_ns(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* Sorts the values; of an even number, the mean of the two in the middle. */
static int64_t
median(int64_t *values, size_t count)
{
    qsort(values, count, sizeof(values[0]), compare_ns);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* The greatest work and the least wait of all ranks; false if one of them does not know. */
static bool
common_step(const struct trial_step *const *ranks, size_t rank_count, size_t step, struct trial_step *common)
{
    *common = (struct trial_step){0, most_ns};
    for (size_t r = 0; r < rank_count; ++r) {
        struct trial_step of = ranks[r][step];
        if (of.own_ns <= 0 || of.own_ns > most_ns || of.wait_ns < 0 || of.wait_ns > most_ns)
            return false;
        common->own_ns = of.own_ns > common->own_ns ? of.own_ns : common->own_ns;
        common->wait_ns = of.wait_ns < common->wait_ns ? of.wait_ns : common->wait_ns;
    }
    return rank_count > 0;
}

bool
trial_judge(const struct trial_step *const *ranks, size_t rank_count, struct trial_result *result)
{
    int64_t slowed_ns[TRIAL_PAIRS], gained_ns[TRIAL_PAIRS], overlapped_ns[TRIAL_PAIRS], apart_ns[TRIAL_PAIRS];
    size_t count = 0;
    *result = (struct trial_result){0};
    for (size_t pair = 0; pair < TRIAL_PAIRS; ++pair) {
        size_t first = 2 * pair, with = trial_overlaps(first) ? first : first + 1;
        struct trial_step overlapped, apart;
        if (!common_step(ranks, rank_count, with, &overlapped) ||
            !common_step(ranks, rank_count, first + first + 1 - with, &apart))
            continue;
        overlapped_ns[count] = overlapped.own_ns + overlapped.wait_ns;
        apart_ns[count] = apart.own_ns + apart.wait_ns;
        slowed_ns[count] = overlapped.own_ns - apart.own_ns;
        gained_ns[count] = apart_ns[count] - overlapped_ns[count];
        result->slower += slowed_ns[count] > 0;
        result->gains += gained_ns[count] > 0;
        result->losses += gained_ns[count] < 0;
        ++count;
    }
    result->pairs = count;
    if (count < TRIAL_PAIRS_AT_LEAST)
        return false;
    result->slowed_ns = median(slowed_ns, count);
    result->gained_ns = median(gained_ns, count);
    result->overlapped_ns = median(overlapped_ns, count);
    result->apart_ns = median(apart_ns, count);
    return true;
}

int64_t
trial_slowed(const struct trial_result *result)
{
    return result->slowed_ns > 0 && result->slower + 1 >= result->pairs ? result->slowed_ns : 0;
}

bool
trial_prefers_overlap(const struct trial_result *result, bool overlaps)
{
    int64_t lost_ns = overlaps ? -result->gained_ns : result->gained_ns;
    int64_t step_ns = overlaps ? result->overlapped_ns : result->apart_ns;
    size_t agree = overlaps ? result->losses : result->gains;
    bool changes = lost_ns > step_ns / PREFERRED_BY && agree + 1 >= result->pairs;
    return overlaps != changes;
}

uint64_t
trial_pause(const struct trial_result *result, bool overlaps)
{
    int64_t extra_ns = overlaps ? result->gained_ns : -result->gained_ns;
    int64_t step_ns = overlaps ? result->overlapped_ns : result->apart_ns;
    if (extra_ns <= 0 || step_ns <= 0)
        return PAUSE_LEAST;
    __int128 steps = (__int128)extra_ns * TRIAL_PAIRS * COST_SHARE / step_ns + 1;
    return steps < PAUSE_LEAST ? PAUSE_LEAST : steps > PAUSE_MOST ? PAUSE_MOST : (uint64_t)steps;
}

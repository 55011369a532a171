/*
 * trial.c - see trial.h.
 */
#include "bucketing/trial.h"

#include "base/assertion.h"

#include <stdlib.h>

enum { PREFERRED_BY = 100, COST_SHARE = 200, PAUSE_MOST = 1 << 20 };

static const int64_t most_ns = INT64_C(1800) * 1000 * 1000 * 1000; /* half an hour, as in cost.c */

/*
 * Orders of rounds in which what the program does in each second, third, ... tenth step falls on all ways about as
 * often, as does a drift: two ways change places in the second half; more go round from one of these on. Found by
 * trying orders; test_trial.c tries all periods.
 */
size_t
trial_way(const struct trial_shape *shape, size_t step)
{
    static const unsigned char firsts[][TRIAL_ROUNDS] = {{0, 1, 2, 0, 1, 2, 2, 2}, {0, 2, 3, 1, 3, 1, 2, 0}};
    size_t ways = shape->ways, round = step / ways, at = step % ways;
    if (ways == 2)
        return 2 * round < shape->rounds ? at : 1 - at;
    bool back = ways == 3 && round % TRIAL_ROUNDS == 2;
    return ((back ? ways - 1 - at : at) + firsts[ways > 3][round % TRIAL_ROUNDS]) % ways;
}

static size_t
step_of(const struct trial_shape *shape, size_t round, size_t way)
{
    size_t step = round * shape->ways;
    while (trial_way(shape, step) != way)
        ++step;
    return step;
}

static int
compare_ns(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

int64_t
trial_median(int64_t *values, size_t count)
{
    ASSERT(count > 0);
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
trial_compare(const struct trial_step *const *ranks, size_t rank_count, const struct trial_shape *shape, size_t way,
              struct trial_result *result)
{
    enum { PRESENT, OTHER, OTHER_WAIT, GAINED, WORK, VALUES };
    int64_t values[VALUES][TRIAL_STEPS_AT_MOST];
    size_t count = 0;
    ASSERT(shape->ways <= TRIAL_WAYS_AT_MOST && shape->ways * shape->rounds <= TRIAL_STEPS_AT_MOST);
    ASSERT(way > 0 && way < shape->ways);
    *result = (struct trial_result){0};
    for (size_t round = 0; round < shape->rounds; ++round) {
        struct trial_step present, other;
        if (!common_step(ranks, rank_count, step_of(shape, round, 0), &present) ||
            !common_step(ranks, rank_count, step_of(shape, round, way), &other))
            continue;
        values[PRESENT][count] = present.own_ns + present.wait_ns;
        values[OTHER][count] = other.own_ns + other.wait_ns;
        values[OTHER_WAIT][count] = other.wait_ns;
        values[GAINED][count] = values[PRESENT][count] - values[OTHER][count];
        values[WORK][count] = other.own_ns - present.own_ns;
        result->gains += values[GAINED][count] > 0;
        result->more += values[WORK][count] > 0;
        result->less += values[WORK][count] < 0;
        ++count;
    }
    if (count == 0 || 4 * count < 3 * shape->rounds) {
        *result = (struct trial_result){0};
        return false;
    }
    result->rounds = count;
    result->present_ns = trial_median(values[PRESENT], count);
    result->other_ns = trial_median(values[OTHER], count);
    result->other_wait_ns = trial_median(values[OTHER_WAIT], count);
    result->gained_ns = trial_median(values[GAINED], count);
    result->work_ns = trial_median(values[WORK], count);
    return true;
}

int64_t
trial_slowed(const struct trial_result *result, bool present_overlaps)
{
    int64_t slowed_ns = present_overlaps ? -result->work_ns : result->work_ns;
    size_t agree = present_overlaps ? result->less : result->more, exceptions = (result->rounds + 2) / TRIAL_ROUNDS;
    return slowed_ns > 0 && agree + exceptions >= result->rounds ? slowed_ns : 0;
}

bool
trial_prefers(const struct trial_result *result)
{
    return result->gained_ns > result->present_ns / PREFERRED_BY && 4 * result->gains >= 3 * result->rounds;
}

uint64_t
trial_pause(size_t others, int64_t extra_ns, int64_t step_ns)
{
    uint64_t least = (uint64_t)others * COST_SHARE;
    __int128 steps = step_ns > 0 && extra_ns > 0 ? (__int128)extra_ns * COST_SHARE / step_ns + 1 : 0;
    uint64_t pause = steps > PAUSE_MOST ? PAUSE_MOST : (uint64_t)steps;
    return pause < least ? least : pause;
}

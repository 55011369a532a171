/* pace.c - see pace.h. */
#include "launcher/watch/pace.h"

#include "launcher/common/waiting.h"

#include <math.h>
#include <stdlib.h>

#define LEAST_WAITING_NS 1e6

/* The latest first. */
static int
compare_steps(const void *a, const void *b)
{
    const struct last_rank *left = a, *right = b;
    return left->step > right->step ? -1 : left->step < right->step;
}

double
pace_wait(const struct rank_view *rank, int place)
{
    return (double)(rank->exposed_steps[place] & (RANK_EXPOSED_CONTROL - 1));
}

struct last_rank
pace_last(const struct rank_view *ranks, int count, int place)
{
    struct last_rank last = last_rank_none();
    last.control = (ranks[0].exposed_steps[place] & RANK_EXPOSED_CONTROL) != 0;
    last.step = ranks[0].exposed_steps[place] >> RANK_EXPOSED_NS_BITS;
    for (int i = 0; i < count; ++i) {
        if (ranks[i].exposed_steps[place] == 0 || ranks[i].exposed_steps[place] >> RANK_EXPOSED_NS_BITS != last.step ||
            ranks[i].generation != ranks[0].generation)
            return last_rank_none();
        last_rank_add(&last, i, pace_wait(&ranks[i], place));
    }
    return last;
}

/* Too few boundaries are known of all ranks: of the medians of each the least, and nothing is said of ranks. */
static void
take_medians(const struct rank_view *ranks, int count, struct pace *pace)
{
    const struct rank_view *least = &ranks[0];
    for (int i = 0; i < count; ++i) {
        if (ranks[i].exposed_count == 0)
            return;
        least = ranks[i].exposed_ns < least->exposed_ns ? &ranks[i] : least;
    }
    pace->count = least->exposed_count;
    pace->exposed_ns = least->exposed_ns;
}

static void
find_exposed(const struct rank_view *ranks, int count, struct pace *pace)
{
    struct last_rank boundaries[RANK_EXPOSED_STEPS];
    size_t common_count = 0;
    for (int place = 0; place < RANK_EXPOSED_STEPS; ++place) {
        boundaries[common_count] = pace_last(ranks, count, place);
        common_count += boundaries[common_count].count > 0;
    }
    qsort(boundaries, common_count, sizeof(boundaries[0]), compare_steps);
    double least_ns = fmax(pace->steps_per_s > 0.0 ? 1e8 / pace->steps_per_s : 0.0, LEAST_WAITING_NS);
    struct waiting waiting = common_count > 0 ? waiting_of(boundaries, common_count, least_ns) : (struct waiting){0};
    if (waiting.count < WAITING_LEAST) {
        take_medians(ranks, count, pace);
    } else {
        pace->count = waiting.count;
        pace->first_step = boundaries[common_count - 1].step;
        pace->last_step = boundaries[0].step;
        pace->exposed_ns = (uint64_t)llround(waiting.exposed);
        pace->waiting_ns = (uint64_t)llround(waiting.waiting);
        pace->straggler = waiting.straggler;
        pace->waited = waiting;
        pace->waits = waiting.straggler >= 0 || waiting.waiting >= least_ns;
    }
    uint64_t bound_ns = ranks[0].exposed_bound_ns;
    pace->bound_ns = bound_ns == UINT64_MAX || bound_ns < pace->exposed_ns ? bound_ns : pace->exposed_ns;
}

static struct pace
pace_now(const struct rank_view *ranks, int count)
{
    const struct rank_view *first = &ranks[0];
    struct pace pace = {.straggler = -1, .bound_ns = UINT64_MAX, .waiting_ns = UINT64_MAX};
    uint64_t from = first->training_step > 0 ? first->training_step : 1;
    if (first->step > from && first->training_us > 0)
        pace.steps_per_s = (double)(first->step - from) * 1e6 / (double)first->training_us;
    /* One call, before the loop, is of each step's batch. Calls for evaluation do not make a step; where there are
     * fewer than steps, what they share out is not a batch. */
    uint64_t calls_each_step = first->shard_calls == 1 ? 1 : first->step > 0 ? first->shard_calls / first->step : 0;
    if (first->shard_total != UINT64_MAX)
        pace.items_per_s = pace.steps_per_s * (double)first->shard_total * (double)calls_each_step;
    if (count > 1)
        find_exposed(ranks, count, &pace);
    return pace;
}

enum { LOOKS_LEAST = 4, LOOKS_MOST = 32, QUICK_STEPS = 20 /* a second: the latest took less than one */ };

void
pace_note(struct rank_view *ranks, int count)
{
    struct pace pace = pace_now(ranks, count);
    if (pace.waiting_ns == UINT64_MAX || ranks[0].step == ranks[0].pace_step)
        return;
    ranks[0].pace_step = ranks[0].step;
    if (ranks[0].pace_looks == LOOKS_MOST) {
        ranks[0].pace_looks /= 2;
        for (int i = 0; i < count; ++i)
            ranks[i].pace_stragglers /= 2;
    }
    ++ranks[0].pace_looks;
    if (pace.straggler >= 0)
        ++ranks[pace.straggler].pace_stragglers;
}

struct pace
pace_of(const struct rank_view *ranks, int count)
{
    struct pace pace = pace_now(ranks, count);
    bool is_quick = pace.steps_per_s > QUICK_STEPS;
    bool doubtful = pace.straggler >= 0 && is_quick && ranks[0].pace_looks >= LOOKS_LEAST &&
                    4 * ranks[pace.straggler].pace_stragglers < 3 * ranks[0].pace_looks;
    if (doubtful)
        pace.straggler = pace.waited.straggler = -1;
    return pace;
}

/* pace.c - see pace.h. */
#include "launcher/watch/pace.h"

#include "launcher/common/xcalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The latest first. */
static int
compare_steps(const void *a, const void *b)
{
    const struct last_rank *left = a, *right = b;
    return left->step > right->step ? -1 : left->step < right->step;
}

/* Boundaries that all ranks have looked at, the latest first. */
struct boundaries {
    struct last_rank list[RANK_EXPOSED_STEPS];
    size_t count;
};

static double
wait_of(const struct rank_view *rank, uint64_t boundary)
{
    return (double)(rank->exposed_steps[rank_exposed_place(boundary)] & (RANK_EXPOSED_CONTROL - 1));
}

/* The boundary in this place, and who came last; no rank, if not all have looked at the same one. */
static struct last_rank
last_at(const struct rank_view *ranks, int count, int place)
{
    struct last_rank last = last_rank_none();
    last.control = (ranks[0].exposed_steps[place] & RANK_EXPOSED_CONTROL) != 0;
    last.step = ranks[0].exposed_steps[place] >> RANK_EXPOSED_NS_BITS;
    for (int i = 0; i < count; ++i) {
        if (ranks[i].exposed_steps[place] == 0 || ranks[i].exposed_steps[place] >> RANK_EXPOSED_NS_BITS != last.step ||
            ranks[i].generation != ranks[0].generation)
            return last_rank_none();
        last_rank_add(&last, i, wait_of(&ranks[i], last.step));
    }
    return last;
}

static void
find_boundaries(const struct rank_view *ranks, int count, struct boundaries *found)
{
    found->count = 0;
    for (int place = 0; place < RANK_EXPOSED_STEPS; ++place) {
        found->list[found->count] = last_at(ranks, count, place);
        found->count += found->list[found->count].count > 0 && found->list[found->count].step > ranks[0].training_step;
    }
    qsort(found->list, found->count, sizeof(found->list[0]), compare_steps);
}

/* ---- sums of them ---- */

/* What pace_note() has added up of this program since its start-up, or nothing. */
static struct pace_sums
sums_so_far(const struct rank_view *first)
{
    const struct pace_sums *sums = &first->pace_sums;
    bool is_same = sums->from == first->training_step && sums->generation == first->generation;
    return is_same ? *sums : (struct pace_sums){.from = first->training_step, .generation = first->generation};
}

/* Adds the boundaries that are not in `sums` yet; with them `waits` become those of each rank. */
static void
add_up(const struct rank_view *ranks, int count, const struct boundaries *boundaries, struct pace_sums *sums,
       struct rank_waits *waits)
{
    uint64_t seen = sums->last;
    for (int r = 0; r < count; ++r)
        waits[r] = sums->count > 0 ? ranks[r].pace_waits : (struct rank_waits){0};
    for (size_t i = boundaries->count; i-- > 0;) {
        const struct last_rank *boundary = &boundaries->list[i];
        if (boundary->control || boundary->step <= seen)
            continue;
        for (int r = 0; r < count; ++r)
            rank_waits_add(&waits[r], r, wait_of(&ranks[r], boundary->step), boundary);
        sums->first = sums->count == 0 ? boundary->step : sums->first;
        sums->last = boundary->step;
        sums->exposed_ns += boundary->waited;
        ++sums->count;
    }
}

/* ---- the figures ---- */

enum { LOOKS_LEAST = 4, LOOKS_MOST = 32, QUICK_STEPS = 20 /* a second: the latest took less than one */ };

static void
find_exposed(const struct rank_view *ranks, int count, bool doubts, struct rank_waits *waits, struct pace *pace)
{
    struct boundaries boundaries;
    struct pace_sums sums = sums_so_far(&ranks[0]);
    struct waiting *waited = &pace->waited;
    find_boundaries(ranks, count, &boundaries);
    add_up(ranks, count, &boundaries, &sums, waits);
    *waited = (struct waiting){
        .count = sums.count, .least = waiting_least(pace->step_ns, 1e6), .exposed = sums.exposed_ns, .straggler = -1};
    if (boundaries.count > 0)
        waiting_find_straggler(waited, boundaries.list, boundaries.count);
    doubts = doubts && pace->steps_per_s > QUICK_STEPS && ranks[0].pace_looks >= LOOKS_LEAST;
    if (doubts && waited->straggler >= 0 && 4 * ranks[waited->straggler].pace_stragglers < 3 * ranks[0].pace_looks)
        waited->straggler = -1;
    waiting_take(waited, waits, (size_t)count);
    pace->sums = sums;
    pace->exposed_ns = sums.count > 0 ? (uint64_t)llround(waited->exposed) : 0;
    pace->waiting_ns = !isnan(waited->waiting) ? (uint64_t)llround(waited->waiting) : UINT64_MAX;
}

/* By the device's clock, where most steps were timed; else by the host's, which may be ahead of it. */
static void
find_step(const struct rank_view *first, struct pace *pace)
{
    uint64_t from = first->training_step > 0 ? first->training_step : 1;
    if (first->step <= from)
        return;
    bool is_timed = 2 * first->timed_steps >= first->step - from;
    pace->first = from + 1;
    pace->last = first->step;
    pace->is_timed = is_timed;
    pace->step_ns = is_timed ? (double)first->timed_ns / (double)first->timed_steps
                             : (double)first->training_us * 1e3 / (double)(first->step - from);
    pace->steps_per_s = pace->step_ns > 0 ? 1e9 / pace->step_ns : 0;
}

/* `items`: of a step; 0: not known. */
static struct noise_scale
noise_of(const struct rank_view *first, int count, double items)
{
    bool is_said = !first->uneven_shares && !first->same_data;
    struct noise_scale noise = {.batch = items > 0 ? items : count, .in_items = items > 0};
    noise.scale = is_said ? 1e-6 * (double)first->noise_scale * noise.batch / count : 0;
    noise.spread = 1e-6 * (double)first->noise_spread;
    return noise;
}

const char *
noise_scale_text(const struct noise_scale *noise, char text[NOISE_TEXT_BYTES])
{
    char scale[32], low[32], high[32], batch[32];
    snprintf(text, NOISE_TEXT_BYTES,
             "the critical batch size (gradient noise scale) is about %s %s (%s to %s). This run has %s, so a larger "
             "batch saves %s",
             waiting_ms_text(noise->scale, scale), noise->in_items ? "items" : "times the batch of one rank",
             waiting_ms_text(noise->scale * (1 - noise->spread), low),
             waiting_ms_text(noise->scale * (1 + noise->spread), high), waiting_ms_text(noise->batch, batch),
             noise->batch < noise->scale ? "steps" : "few steps");
    return text;
}

static struct pace
find_pace(const struct rank_view *ranks, int count, bool doubts, struct rank_waits *waits)
{
    const struct rank_view *first = &ranks[0];
    struct pace pace = {.waited.straggler = -1, .waiting_ns = UINT64_MAX};
    find_step(first, &pace);
    /* One call, before the loop, is of each step's batch. Calls for evaluation do not make a step; where there are
     * fewer than steps, what they share out is not a batch. */
    uint64_t calls_each_step = first->shard_calls == 1 ? 1 : first->step > 0 ? first->shard_calls / first->step : 0;
    double items = first->shard_total != UINT64_MAX ? (double)first->shard_total * (double)calls_each_step : 0;
    pace.items_per_s = pace.steps_per_s * items;
    pace.noise = noise_of(first, count, first->shard_calls > 1 ? items : 0); /* one call may be of all data */
    bool is_outdated = waiting_outdates(pace.step_ns, (double)first->trial_step_ns);
    pace.slowed_ns = first->trial_count > 0 && !is_outdated ? first->slowed_ns : UINT64_MAX;
    struct rank_waits *own = waits == NULL ? xcalloc((size_t)count, sizeof(*own)) : NULL;
    if (count > 1)
        find_exposed(ranks, count, doubts, waits != NULL ? waits : own, &pace);
    free(own);
    if ((pace.is_timed || pace.step_ns == 0) && pace.sums.count > 0) {
        pace.first = pace.sums.first;
        pace.last = pace.sums.last;
    }
    return pace;
}

void
pace_note(struct rank_view *ranks, int count)
{
    struct rank_waits *waits = xcalloc((size_t)count, sizeof(*waits));
    struct pace pace = find_pace(ranks, count, false, waits);
    ranks[0].pace_sums = pace.sums;
    for (int i = 0; i < count; ++i)
        ranks[i].pace_waits = waits[i];
    free(waits);
    if (pace.waiting_ns == UINT64_MAX || ranks[0].step == ranks[0].pace_step)
        return;
    ranks[0].pace_step = ranks[0].step;
    if (ranks[0].pace_looks == LOOKS_MOST) {
        ranks[0].pace_looks /= 2;
        for (int i = 0; i < count; ++i)
            ranks[i].pace_stragglers /= 2;
    }
    ++ranks[0].pace_looks;
    if (pace.waited.straggler >= 0)
        ++ranks[pace.waited.straggler].pace_stragglers;
}

struct pace
pace_of(const struct rank_view *ranks, int count, struct rank_waits *waits)
{
    return find_pace(ranks, count, true, waits);
}

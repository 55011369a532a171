/*
 * pace.c - see pace.h.
 */
#include "launcher/watch/pace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST_BOUNDARIES = 8, LATEST = 20 /* of these, which rank is the last counts */ };

#define LEAST_WAITING_NS 1e6
#define MOST_WAITING_NS  1e15

/* What all ranks waited at some boundaries, the latest first. */
struct waits {
    size_t count;
    uint64_t least_ns[RANK_EXPOSED_STEPS]; /* of the rank that came last, */
    uint64_t gap_ns[RANK_EXPOSED_STEPS];   /* how much longer the one before it waited, */
    int last[RANK_EXPOSED_STEPS];          /* that rank */
    uint64_t sum_ns; /* how much longer ranks waited in all of these, each the mean of all ranks */
};

static int
compare_ns(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Sorts the values. */
static uint64_t
median(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof(values[0]), compare_ns);
    return values[count / 2];
}

static uint64_t
wait_at(const struct rank_view *rank, int place)
{
    return rank->exposed_steps[place] & ((UINT64_C(1) << RANK_EXPOSED_NS_BITS) - 1);
}

/* Whether all ranks have looked at the same boundary there. */
static bool
is_common(const struct rank_view *ranks, int count, int place)
{
    uint64_t boundary = ranks[0].exposed_steps[place] >> RANK_EXPOSED_NS_BITS;
    for (int i = 0; i < count; ++i) {
        if (ranks[i].exposed_steps[place] == 0 || ranks[i].exposed_steps[place] >> RANK_EXPOSED_NS_BITS != boundary ||
            ranks[i].generation != ranks[0].generation)
            return false;
    }
    return true;
}

static void
add_boundary(struct waits *waits, const struct rank_view *ranks, int count, int place)
{
    int last = 0;
    uint64_t before_ns = UINT64_MAX, sum_ns = 0;
    for (int i = 0; i < count; ++i) {
        last = wait_at(&ranks[i], place) < wait_at(&ranks[last], place) ? i : last;
        sum_ns += wait_at(&ranks[i], place);
    }
    uint64_t least_ns = wait_at(&ranks[last], place);
    for (int i = 0; i < count; ++i)
        before_ns = i != last && wait_at(&ranks[i], place) < before_ns ? wait_at(&ranks[i], place) : before_ns;
    size_t at = waits->count++;
    waits->last[at] = last;
    waits->least_ns[at] = least_ns;
    waits->gap_ns[at] = before_ns - least_ns;
    waits->sum_ns += sum_ns / (uint64_t)count - least_ns;
}

static size_t
latest_of(const struct waits *waits)
{
    return waits->count < LATEST ? waits->count : LATEST;
}

/* The rank that was last in more than half of the latest, if there is one (Boyer and Moore's vote). */
static int
most_often_last(const struct waits *waits)
{
    int rank = -1;
    size_t lead = 0;
    for (size_t i = 0; i < latest_of(waits); ++i) {
        if (lead == 0)
            rank = waits->last[i];
        lead += waits->last[i] == rank ? 1 : -(size_t)1;
    }
    return rank;
}

/*
 * A straggler is the last in three of four of the latest, and in these the others would be done so much earlier without
 * it: of a machine with too few cores, one rank may often be the last, but by little now and by much then. Where ranks
 * take turns, or several are late, each waits for others, and no single one is to blame: what that costs is a mean, for
 * a median does not see what happens now and then.
 */
static void
find_straggler(struct waits *waits, uint64_t least_ns, struct pace *pace)
{
    int rank = most_often_last(waits);
    size_t count = latest_of(waits);
    uint64_t hits = 0, gaps_ns[LATEST] = {0};
    for (size_t i = 0; i < count; ++i) {
        hits += waits->last[i] == rank;
        gaps_ns[i] = waits->last[i] == rank ? waits->gap_ns[i] : 0;
    }
    uint64_t gap_ns = median(gaps_ns, count), mean_ns = waits->count > 0 ? waits->sum_ns / waits->count : 0;
    pace->mean_ns = mean_ns;
    if (gaps_ns[count / 4] >= least_ns) { /* median() has sorted them */
        pace->straggler = rank;
        pace->latest_count = count;
        pace->last_count = hits;
        pace->waiting_ns = gap_ns;
    } else if (mean_ns >= least_ns) {
        pace->waiting_ns = mean_ns;
    }
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
    struct waits waits = {0};
    uint64_t common[RANK_EXPOSED_STEPS]; /* the boundary, and its place */
    size_t common_count = 0;
    for (int place = 0; place < RANK_EXPOSED_STEPS; ++place) {
        uint64_t boundary = ranks[0].exposed_steps[place] >> RANK_EXPOSED_NS_BITS;
        if (is_common(ranks, count, place))
            common[common_count++] = boundary * RANK_EXPOSED_STEPS + (unsigned)place;
    }
    qsort(common, common_count, sizeof(common[0]), compare_ns);
    while (common_count > 0)
        add_boundary(&waits, ranks, count, (int)(common[--common_count] % RANK_EXPOSED_STEPS));
    if (waits.count < LEAST_BOUNDARIES) {
        take_medians(ranks, count, pace);
    } else {
        double tenth_ns = pace->steps_per_s > 0.0 ? 1e8 / pace->steps_per_s : 0.0;
        find_straggler(&waits, (uint64_t)fmin(fmax(tenth_ns, LEAST_WAITING_NS), MOST_WAITING_NS), pace);
        pace->count = waits.count;
        pace->exposed_ns = median(waits.least_ns, waits.count);
    }
    uint64_t bound_ns = ranks[0].exposed_bound_ns;
    pace->bound_ns = bound_ns == UINT64_MAX || bound_ns < pace->exposed_ns ? bound_ns : pace->exposed_ns;
}

static struct pace
pace_now(const struct rank_view *ranks, int count)
{
    const struct rank_view *first = &ranks[0];
    struct pace pace = {.straggler = -1, .bound_ns = UINT64_MAX, .mean_ns = UINT64_MAX};
    if (first->step > 1 && first->training_us > 0)
        pace.steps_per_s = (double)(first->step - 1) * 1e6 / (double)first->training_us;
    /* Calls for evaluation do not make a step; where there are fewer than steps, what they share out is not a batch. */
    uint64_t calls_each_step = first->step > 0 ? first->shard_calls / first->step : 0;
    if (first->shard_total != UINT64_MAX)
        pace.items_per_s = pace.steps_per_s * (double)first->shard_total * (double)calls_each_step;
    if (count > 1)
        find_exposed(ranks, count, &pace);
    return pace;
}

enum { LOOKS_LEAST = 4, LOOKS_MOST = 32 };

void
pace_note(struct rank_view *ranks, int count)
{
    struct pace pace = pace_now(ranks, count);
    if (pace.mean_ns == UINT64_MAX || ranks[0].step == ranks[0].pace_step)
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
    bool is_quick = pace.steps_per_s > LATEST; /* the latest took less than a second */
    bool doubtful = pace.straggler >= 0 && is_quick && ranks[0].pace_looks >= LOOKS_LEAST &&
                    4 * ranks[pace.straggler].pace_stragglers < 3 * ranks[0].pace_looks;
    if (doubtful) {
        pace.straggler = -1;
        pace.waiting_ns = pace.mean_ns;
    }
    return pace;
}

const char *
pace_ms_text(uint64_t ns, char text[32])
{
    double ms = (double)ns * 1e-6;
    snprintf(text, 32, ms < 1000.0 ? "%.3g" : "%.0f", ms);
    return text;
}

const char *
pace_waiting_text(const struct pace *pace, char text[PACE_TEXT_BYTES])
{
    char ms[32];
    text[0] = '\0';
    if (pace->waiting_ns == 0)
        return text;
    pace_ms_text(pace->waiting_ns, ms);
    if (pace->straggler >= 0)
        snprintf(text, PACE_TEXT_BYTES, "waiting for rank %d: %s ms per step", pace->straggler, ms);
    else
        snprintf(text, PACE_TEXT_BYTES, "waiting for each other: %s ms per step", ms);
    return text;
}

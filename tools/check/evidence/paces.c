/*
 * paces.c - see measure.h: after how many DDP_STEPs do the ranks update parameters, and one process?
 *
 * Each step begins from the reference: whether a rank's update has changed a parameter is seen in each step by itself.
 */
#include "tools/check/evidence/measure.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

/* What a step has changed, by the rows with which the next step begins. */
struct moves {
    bool is_known;    /* parameters were compared after the step */
    bool any_of_one;  /* one process has changed a parameter */
    int ranks;        /* so many ranks have changed one */
    bool any_of_rank; /* the rank that is being read has */
};

/* The rank's own update has changed the parameter, by more than rounding where one process has not. */
static bool
has_moved(const struct check_row *row, double tolerance)
{
    if (!row->moved)
        return row->norms.difference > tolerance * row->norms.reference;
    return row->same_bits || !row->of_change || row->norms.own > 0;
}

static void
read_rank(const struct check_evidence *evidence, const struct check_rows *rows, struct moves *moves)
{
    const uint32_t steps = evidence->steps;
    EACH_ROW_OF(row, rows, CHECK_PARAMETER) {
        uint32_t step = row->step - 1; /* that has left it so */
        if (row->averaged || step == 0 || step > steps)
            continue;
        moves[step].is_known = true;
        moves[step].any_of_one = moves[step].any_of_one || row->moved;
        moves[step].any_of_rank = moves[step].any_of_rank || has_moved(row, evidence->tolerance);
    }
    for (uint32_t step = 1; step <= steps; ++step) {
        moves[step].ranks += moves[step].any_of_rank;
        moves[step].any_of_rank = false;
    }
}

/* The first step after `step` in which one process updates, or all ranks do; 0: there is none. */
static uint32_t
find_next(const struct moves *moves, uint32_t steps, uint32_t step, int ranks)
{
    for (uint32_t next = step + 1; next <= steps; ++next) {
        bool is_update = ranks > 0 ? moves[next].ranks == ranks : moves[next].any_of_one;
        if (is_update)
            return next;
    }
    return 0;
}

/* The ranks update several times, and never in two steps one after the other: a rank that leaves one update out, as for
 * an overflow, updates in the steps around. */
static bool
wait_always(const struct moves *moves, uint32_t steps)
{
    unsigned updates = 0;
    for (uint32_t step = 1; step <= steps; ++step) {
        bool is_second = step > 1 && moves[step].ranks > 0 && moves[step - 1].ranks > 0;
        if (is_second)
            return false;
        updates += moves[step].ranks > 0;
    }
    return updates >= 2;
}

/* One process leaves an update out again and again, where the ranks do not. */
static bool
waits_often(const struct moves *moves, uint32_t steps, int ranks)
{
    unsigned waits = 0;
    for (uint32_t step = 1; step <= steps; ++step)
        waits += moves[step].is_known && !moves[step].any_of_one && moves[step].ranks == ranks;
    return waits >= 2;
}

/* Of a step that one process, or all ranks, update alone, after the common update `last`; `step` 0: nothing is known of
 * the others' next update. */
static struct facts_pace
describe(const struct moves *moves, uint32_t steps, int ranks, uint32_t step, uint32_t last)
{
    bool is_of_one = moves[step].any_of_one;
    uint32_t next = find_next(moves, steps, step, is_of_one ? ranks : 0);
    struct facts_pace pace = {.step = next > 0 ? step : 0};
    pace.of_ranks = (is_of_one ? next : step) - last;
    pace.of_one = (is_of_one ? step : next) - last;
    return pace;
}

/* Whether it is a pace, and no single update that is left out. `is_first`: all have made no update before. */
static bool
is_pace(const struct moves *moves, uint32_t steps, int ranks, uint32_t step, bool is_first)
{
    if (moves[step].any_of_one)
        return wait_always(moves, steps);
    if (moves[step].ranks < ranks)
        return false;
    return is_first || waits_often(moves, steps, ranks);
}

static struct facts_pace
find_pace(const struct moves *moves, uint32_t steps, int ranks)
{
    uint32_t last = 0; /* the last update that all have made */
    for (uint32_t step = 1; step <= steps && moves[step].is_known; ++step) {
        bool is_of_any_rank = moves[step].ranks > 0;
        if (moves[step].any_of_one == is_of_any_rank) {
            last = is_of_any_rank ? step : last;
            continue;
        }
        if (is_pace(moves, steps, ranks, step, last == 0))
            return describe(moves, steps, ranks, step, last);
        break;
    }
    return (struct facts_pace){.step = 0};
}

struct facts_pace
paces_find(const struct check_evidence *evidence)
{
    OWNED struct moves *moves = xcalloc(evidence->steps + 2, sizeof(*moves));
    for (int r = 0; r < evidence->ranks; ++r)
        read_rank(evidence, &evidence->ranked[r], moves);
    struct facts_pace pace = find_pace(moves, evidence->steps, evidence->ranks);
    const struct check_row *boundary = check_rows_find(&evidence->ranked[0], CHECK_ROW_STEP);
    if (boundary != NULL && boundary->tensor.line > 0)
        pace.call = &boundary->tensor;
    return pace;
}

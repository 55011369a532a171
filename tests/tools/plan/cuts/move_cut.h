/*
 * move_cut.h - wrong cuts of a plan by state, for a build of the player with defects (tests/lib/woven.txt): the plan
 * that was loaded becomes another one, as DDPRUN_TEST_CUT says. Called once, before anything is followed.
 *
 *     rotate K    the period begins K operations later
 *     border K    state is put back K operations later than its last write; K may be negative
 *     out K       operation K is left out
 *     twice K     operation K stands there twice
 *     log K       what operation K brings to the host is taken for a log: each rank reads its own
 *     all K       all ranks make operation K
 */
#ifndef DDPRUN_TESTS_MOVE_CUT_H
#define DDPRUN_TESTS_MOVE_CUT_H

#include "tools/plan/format/play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many periods before a read its bytes were written, once the period begins later: what lies in front of the new
 * border is of the period before. */
static inline uint32_t
cut_periods(uint32_t back, bool is_writer_in_front, bool is_reader_in_front)
{
    const int64_t moved = (int64_t)back + is_writer_in_front - is_reader_in_front;
    return moved < 0 ? 0 : (uint32_t)moved;
}

/* Operation `at` of the new order, which has `count`, was operation from[at]. What is written by, and brings bytes
 * of an earlier period, goes with it. */
static inline void
cut_reorder(struct play *play, const uint32_t *from, uint32_t count, uint32_t rotated)
{
    const uint32_t before = play->plan.operation_count;
    struct play_operation *operations = (struct play_operation *)calloc(count + 1, sizeof(*operations));
    uint32_t *to = (uint32_t *)calloc(before + 1, sizeof(*to));
    for (uint32_t i = 0; i < before; ++i)
        to[i] = UINT32_MAX;
    for (uint32_t at = 0; at < count; ++at) {
        operations[at] = play->operations[from[at]];
        to[from[at]] = at;
    }
    for (uint32_t at = 0; at < count; ++at) {
        struct play_operation *it = &operations[at];
        const uint32_t writer = it->writer;
        if (it->reads == PLAY_READS_STEP && to[writer] == UINT32_MAX)
            it->reads = PLAY_READS_ALIKE;
        it->writer = to[writer] != UINT32_MAX ? to[writer] : 0;
        if (rotated > 0 && it->reads == PLAY_READS_STEP)
            it->back = cut_periods(it->back, writer < rotated, from[at] < rotated);
        it->noise = it->noise > 0 && to[it->noise - 1] != UINT32_MAX ? to[it->noise - 1] + 1 : 0;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < play->plan.written_count; ++i) {
        struct play_written written = play->written[i];
        if (to[written.writer] == UINT32_MAX)
            continue;
        written.writer = to[written.writer];
        play->written[kept++] = written;
    }
    play->plan.written_count = kept;
    uint32_t *const borders[] = {&play->plan.average_before, &play->plan.state_before};
    for (int i = 0; i < 2; ++i) {
        uint32_t last = *borders[i] - 1;
        while (last > 0 && to[last] == UINT32_MAX)
            --last;
        *borders[i] = to[last] != UINT32_MAX ? to[last] + 1 : 1;
    }
    if (play->plan.average_before < play->plan.state_before)
        play->plan.average_before = count;
    play->operations = operations;
    play->plan.operation_count = count;
    free(to);
}

static inline void
cut_move(struct play *play)
{
    const char *cut = getenv("DDPRUN_TEST_CUT");
    char what[16] = "";
    int k = 0;
    struct play_plan *plan = &play->plan;
    if (cut == NULL || plan->by != PLAY_BY_STATE || sscanf(cut, "%15s %d", what, &k) != 2)
        return;
    const uint32_t count = plan->operation_count, at = (uint32_t)k % count;
    uint32_t *from = (uint32_t *)calloc(count + 2, sizeof(*from)), n = 0;
    if (strcmp(what, "rotate") == 0) {
        for (uint32_t i = 0; i < count; ++i)
            from[n++] = (i + at) % count;
        cut_reorder(play, from, n, at);
    } else if (strcmp(what, "out") == 0 || strcmp(what, "twice") == 0) {
        for (uint32_t i = 0; i < count; ++i) {
            const bool is_it = i == at;
            if (!is_it || what[0] == 't')
                from[n++] = i;
            if (is_it && what[0] == 't')
                from[n++] = i;
        }
        cut_reorder(play, from, n, 0);
    } else if (strcmp(what, "border") == 0) {
        int64_t moved = (int64_t)plan->state_before + k;
        if (moved < 1)
            moved = 1;
        plan->state_before = moved > count ? count : (uint32_t)moved;
        if (plan->average_before < plan->state_before)
            plan->average_before = plan->state_before;
    } else if (strcmp(what, "log") == 0) {
        play->operations[at].reads = PLAY_READS_NOTHING;
    } else if (strcmp(what, "all") == 0) {
        play->operations[at].part = PLAY_BY_ALL;
    }
    free(from);
}

#endif

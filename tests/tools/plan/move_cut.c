/*
 * move_cut.c - move_cut PLAN CHANGE K TO: wrong cuts of a plan. The plan becomes another one, with a hash that is
 * right, in the file TO. Exit code 3: such a plan has no form that can be read, and no player would follow it. CHANGE:
 *
 *     rotate    the period begins K operations later
 *     border    state is put back, or gradients are averaged, K operations later; K may be negative
 *     out       operation K is left out
 *     twice     operation K stands there twice
 *     log       what operation K brings to the host is taken for a log: each rank reads its own
 *     all       all ranks make operation K
 *
 * Without CHANGE it prints all changes of the plan, as lines CHANGE K.
 */
#include "tools/plan/format/play_json.h"

#include <json-c/json_util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many periods before a read its bytes were written, once the period begins later: what lies in front of the new
 * border is of the period before. */
static uint32_t
cut_periods(uint32_t back, bool is_writer_in_front, bool is_reader_in_front)
{
    const int64_t moved = (int64_t)back + is_writer_in_front - is_reader_in_front;
    return moved < 0 ? 0 : (uint32_t)moved;
}

/* By state a border is after an operation, or after the last one before it that is still there; by gradients it is in
 * front of one. */
static void
move_borders(struct play_plan *plan, const uint32_t *to)
{
    uint32_t *const borders[] = {&plan->average_before, &plan->state_before};
    if (plan->by == PLAY_BY_GRADIENTS) {
        const uint32_t at = to[plan->average_before];
        plan->average_before = at != UINT32_MAX ? at : plan->average_before;
        return;
    }
    for (int i = 0; i < 2; ++i) {
        uint32_t last = *borders[i] - 1;
        while (last > 0 && to[last] == UINT32_MAX)
            --last;
        *borders[i] = to[last] != UINT32_MAX ? to[last] + 1 : 1;
    }
}

/* Operation `at` of the new order, which has `count`, was operation from[at]. What is written by, and brings bytes
 * of an earlier period, goes with it. */
static void
cut_reorder(struct play *play, const uint32_t *from, uint32_t count, uint32_t rotated)
{
    const uint32_t before = play->plan.operation_count;
    struct play_operation *operations = calloc(count + 1, sizeof(*operations));
    uint32_t *to = calloc(before + 1, sizeof(*to));
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
    move_borders(&play->plan, to);
    if (play->plan.average_before < play->plan.state_before)
        play->plan.average_before = count;
    play->operations = operations;
    play->plan.operation_count = count;
    free(to);
}

static void
move_border(struct play_plan *plan, int k)
{
    uint32_t *border = plan->by == PLAY_BY_STATE ? &plan->state_before : &plan->average_before;
    int64_t moved = (int64_t)*border + k;
    if (moved < 1)
        moved = 1;
    *border = moved > plan->operation_count ? plan->operation_count : (uint32_t)moved;
    if (plan->average_before < plan->state_before)
        plan->average_before = plan->state_before;
}

static void
cut_move(struct play *play, const char *what, int k)
{
    struct play_plan *plan = &play->plan;
    const uint32_t count = plan->operation_count, at = (uint32_t)(k < 0 ? 0 : k) % count;
    uint32_t *from = calloc(count + 2, sizeof(*from)), n = 0;
    if (strcmp(what, "rotate") == 0) {
        for (uint32_t i = 0; i < count; ++i)
            from[n++] = (i + at) % count;
        cut_reorder(play, from, n, at);
    } else if (strcmp(what, "out") == 0 || strcmp(what, "twice") == 0) {
        for (uint32_t i = 0; i < count; ++i) {
            if (i != at || what[0] == 't')
                from[n++] = i;
            if (i == at && what[0] == 't')
                from[n++] = i;
        }
        cut_reorder(play, from, n, 0);
    } else if (strcmp(what, "border") == 0) {
        move_border(plan, k);
    } else if (strcmp(what, "log") == 0) {
        play->operations[at].reads = PLAY_READS_NOTHING;
    } else if (strcmp(what, "all") == 0) {
        play->operations[at].part = PLAY_BY_ALL;
    }
    free(from);
}

/* Those that change anything. */
static void
list_changes(const struct play *play)
{
    const uint32_t count = play->plan.operation_count;
    for (uint32_t k = 1; k < count; ++k)
        printf("rotate %u\n", k);
    for (int k = -2; k <= 2; ++k)
        if (k != 0)
            printf("border %d\n", k);
    for (uint32_t k = 0; k < count; ++k) {
        printf("out %u\ntwice %u\n", k, k);
        if (play->operations[k].reads != PLAY_READS_NOTHING)
            printf("log %u\n", k);
        if (play->operations[k].part != PLAY_BY_ALL)
            printf("all %u\n", k);
    }
}

int
main(int argc, char **argv)
{
    struct play play, other;
    char why[PLAY_WHY_BYTES];
    struct json_object *plan = argc > 1 ? json_object_from_file(argv[1]) : NULL;
    if (plan == NULL || !play_json_read(json_object_object_get(plan, "turns"), &play, why))
        return 2;
    if (argc != 5) {
        list_changes(&play);
        return 0;
    }
    cut_move(&play, argv[2], atoi(argv[3]));
    json_object_object_add(plan, "turns", play_json_of(&play));
    if (!play_json_read(json_object_object_get(plan, "turns"), &other, why)) {
        puts(why);
        return 3;
    }
    play_json_seal(plan);
    return json_object_to_file_ext(argv[4], plan, JSON_C_TO_STRING_PLAIN) == 0 ? 0 : 1;
}

/*
 * move_cut.c - move_cut PLAN CHANGE K TO: wrong cuts of a plan. The plan becomes another one, with a hash that is
 * right, in the file TO. Exit code 3: such a plan has no form that can be read, and no player would follow it. CHANGE:
 *
 *     rotate    the period begins K operations later
 *     border    state is put back, or gradients are averaged, K operations later; K may be negative
 *     out       operation K is left out
 *     twice     operation K stands there twice
 *     log       what operation K brings to the host is taken for a log: each rank reads its own
 *     earlier   what operation K brings to the host is the rank's whose step was one before
 *     all       all ranks make operation K
 *     turn      the rank whose turn it is makes operation K
 *     lose      memory K has no class
 *     half      of memory K the second half has no class
 *     own       each rank has its own of memory K, which ranks average
 *     sum       by state: what ranks average of memory K is added up
 *     latest    by state: memory K is the rank's that made the last step
 *
 * Operations and memory are counted from 0.
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

/* What ranks average. */
static bool
is_averaged(const struct play *play, const struct play_tensor *tensor)
{
    return tensor->role == (play->plan.by == PLAY_BY_STATE ? PLAY_CHANGES : PLAY_GRADIENT);
}

/* Without its class ranks would compute something else. A parameter is only compared. */
static bool
is_classed(const struct play *play, const struct play_tensor *tensor)
{
    return is_averaged(play, tensor) || tensor->role == PLAY_PER_RANK || tensor->role == PLAY_SUM ||
           tensor->role == PLAY_LAST;
}

/* What scout has added at the end of memory that steps write: none of its steps has written it, and no proof can see
 * what becomes of it. */
static bool
is_unwritten_end(const struct play *play, uint32_t at)
{
    const struct play_tensor *of = &play->tensors[at], *before = at > 0 ? &play->tensors[at - 1] : NULL;
    return before != NULL && before->role == of->role && before->alloc == of->alloc && before->hi == of->lo;
}

static void
lose_memory(struct play *play, uint32_t at)
{
    --play->plan.tensor_count;
    for (uint32_t i = at; i < play->plan.tensor_count; ++i)
        play->tensors[i] = play->tensors[i + 1];
}

enum { WHOLE_ELEMENTS = 8 }; /* bytes: of any type */

static void
halve_memory(struct play_tensor *tensor)
{
    tensor->hi = tensor->lo + (tensor->hi - tensor->lo) / 2 / WHOLE_ELEMENTS * WHOLE_ELEMENTS;
}

static bool
is_memory(const char *what)
{
    static const char *const all[] = {"lose", "half", "own", "sum", "latest"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i)
        if (strcmp(what, all[i]) == 0)
            return true;
    return false;
}

static void
change_memory(struct play *play, const char *what, uint32_t at)
{
    struct play_tensor *tensor = &play->tensors[at];
    if (strcmp(what, "lose") == 0)
        lose_memory(play, at);
    else if (strcmp(what, "half") == 0)
        halve_memory(tensor);
    else if (strcmp(what, "own") == 0)
        tensor->role = PLAY_PER_RANK;
    else if (strcmp(what, "sum") == 0)
        tensor->role = PLAY_SUM;
    else
        tensor->role = PLAY_LAST;
}

static void
change_operation(struct play_operation *operation, const char *what)
{
    if (strcmp(what, "log") == 0)
        operation->reads = PLAY_READS_NOTHING;
    else if (strcmp(what, "earlier") == 0)
        ++operation->back;
    else if (strcmp(what, "all") == 0)
        operation->part = PLAY_BY_ALL;
    else if (strcmp(what, "turn") == 0)
        operation->part = PLAY_BY_TURN;
}

/* The order of operations. */
static void
change_order(struct play *play, const char *what, uint32_t at)
{
    const uint32_t count = play->plan.operation_count;
    const bool is_rotated = strcmp(what, "rotate") == 0, is_doubled = strcmp(what, "twice") == 0;
    uint32_t *from = calloc(count + 2, sizeof(*from)), n = 0;
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t operation = is_rotated ? (i + at) % count : i;
        if (is_rotated || is_doubled || i != at)
            from[n++] = operation;
        if (is_doubled && i == at)
            from[n++] = operation;
    }
    cut_reorder(play, from, n, is_rotated ? at : 0);
    free(from);
}

static void
cut_move(struct play *play, const char *what, int k)
{
    const bool orders = strcmp(what, "rotate") == 0 || strcmp(what, "out") == 0 || strcmp(what, "twice") == 0;
    const uint32_t at = (uint32_t)(k < 0 ? 0 : k), tensors = play->plan.tensor_count;
    if (strcmp(what, "border") == 0)
        move_border(&play->plan, k);
    else if (is_memory(what) && tensors > 0)
        change_memory(play, what, at % tensors);
    else if (orders)
        change_order(play, what, at % play->plan.operation_count);
    else
        change_operation(&play->operations[at % play->plan.operation_count], what);
}

static void
list_changes_of_operation(const struct play *play, uint32_t k)
{
    const struct play_operation *of = &play->operations[k];
    printf("out %u\ntwice %u\n", k, k);
    if (of->reads != PLAY_READS_NOTHING)
        printf("log %u\n", k);
    if (of->reads == PLAY_READS_STEP)
        printf("earlier %u\n", k);
    if (of->part != PLAY_BY_ALL)
        printf("all %u\n", k);
    if (of->part == PLAY_BY_ALL || of->part == PLAY_BY_LAST)
        printf("turn %u\n", k);
}

static void
list_changes_of_memory(const struct play *play, uint32_t k)
{
    const struct play_tensor *of = &play->tensors[k];
    if (!is_classed(play, of) || is_unwritten_end(play, k))
        return;
    printf("lose %u\n", k);
    if (of->hi - of->lo >= 2 * WHOLE_ELEMENTS)
        printf("half %u\n", k);
    if (is_averaged(play, of))
        printf("own %u\n", k);
    if (of->role == PLAY_CHANGES && play->plan.by == PLAY_BY_STATE)
        printf("sum %u\nlatest %u\n", k, k);
}

/* Those that change anything. */
static void
list_changes(const struct play *play)
{
    for (uint32_t k = 1; k < play->plan.operation_count; ++k)
        printf("rotate %u\n", k);
    for (int k = -2; k <= 2; ++k)
        if (k != 0)
            printf("border %d\n", k);
    for (uint32_t k = 0; k < play->plan.operation_count; ++k)
        list_changes_of_operation(play, k);
    for (uint32_t k = 0; k < play->plan.tensor_count; ++k)
        list_changes_of_memory(play, k);
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

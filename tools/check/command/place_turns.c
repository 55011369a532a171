/*
 * place_turns.c - the place (place.h) in a round of ranks that take turns. Ranks divide batches, and nothing within
 * one: what a call makes on rank 0, then on rank 1 and so on is what it makes in one process. An update that is made in
 * one turn alone is not made by all ranks.
 */
#include "tools/check/command/relation.h"

static const char same_in_each_turn[] =
    "a rank that takes turns has a whole batch: let no loop within it, and no data, begin by DDP_RANK() or advance by "
    "DDP_WORLD_SIZE()";

/* How often the call is made in the interval. */
static size_t
count_calls(const struct looked *looked, const struct looked_operation *call)
{
    size_t count = 0;
    FOR_EACH(op, looked->operations, looked->count)
        count += looked_is_one_call(op, call);
    return count;
}

/* What the call makes for the `number`th time, from 0; NULL: it is not made so often. */
static const struct looked_operation *
find_call(const struct looked *looked, const struct looked_operation *call, size_t number)
{
    FOR_EACH(op, looked->operations, looked->count) {
        if (looked_is_one_call(op, call) && number-- == 0)
            return op;
    }
    return NULL;
}

/* Whether each rank makes the call as often as one process does: it is of an update, or of the first batch, which
 * all ranks have. */
static bool
is_of_each_rank(const struct finding *finding, const struct looked_operation *call)
{
    const size_t one = count_calls(&finding->one, call);
    return ALL(rank, finding->ranks, (size_t)finding->question->ranks, count_calls(rank, call) == one);
}

/* Says that all ranks together make the call more, or less, often than one process. Whether they do. */
static bool
say_other_count(const struct finding *finding, size_t at)
{
    const struct looked_operation *call = &finding->one.operations[at];
    const size_t one = count_calls(&finding->one, call);
    size_t all = 0;
    for (int r = 0; r < finding->question->ranks; ++r)
        all += count_calls(&finding->ranks[r], call);
    if (all == one || is_of_each_rank(finding, call))
        return false;
    place_say(finding, PLACE_MISSING, call, NULL, place_same_decision,
              "in their turns of the round all ranks together make it %zu time%s, and one process %zu time%s", all,
              all == 1 ? "" : "s", one, one == 1 ? "" : "s");
    place_add(finding, "%s", place_describe_origin(call, ORIGIN_OF_DECISION, (char[OPERATION_SENTENCE_BYTES]){""}));
    place_add_read(finding, at);
    return true;
}

/* Whether both arguments point into memory without annotation, to other bytes of it, which hold something else. */
static bool
begins_elsewhere(const struct look_argument *one, const struct look_argument *own)
{
    if (!one->is_memory || !own->is_memory || one->tensor != 0)
        return false;
    return one->offset != own->offset && one->before != own->before;
}

/* Says the first argument of the rank's operation that is another one than in the one process's, of which it is to
 * be a copy. Whether there is one. */
static bool
say_other_argument(const struct finding *finding, int rank, const struct looked_operation *own,
                   const struct looked_operation *one)
{
    for (uint32_t a = 0; a < one->header->arguments; ++a) {
        const struct look_argument *mine = &one->arguments[a], *theirs = &own->arguments[a];
        if (begins_elsewhere(mine, theirs))
            return place_say(finding, PLACE_SCALAR, one, NULL, same_in_each_turn,
                             "%s points to byte %llu of its memory on rank %d, and to byte %llu in one process for "
                             "the same batch",
                             ARGUMENT_OF(one, mine), (unsigned long long)theirs->offset, rank,
                             (unsigned long long)mine->offset);
        if (!mine->is_memory && !theirs->is_memory && mine->value != theirs->value)
            return place_say(finding, PLACE_SCALAR, one, NULL, same_in_each_turn,
                             "%s is %.6g on rank %d, and %.6g in one process for the same batch",
                             ARGUMENT_OF(one, mine), theirs->value, rank, mine->value);
    }
    return false;
}

/* Says the first call whose arguments on a rank are other ones than in the same turn of the one process. `at` is the
 * operation of the one process by whose call site both are found. Whether there is one. */
static bool
say_other_turn(const struct finding *finding, size_t at)
{
    const struct looked_operation *call = &finding->one.operations[at];
    const bool is_of_each = is_of_each_rank(finding, call);
    size_t before = 0; /* what the ranks before have made */
    for (int r = 0; r < finding->question->ranks; ++r) {
        const size_t count = count_calls(&finding->ranks[r], call);
        for (size_t i = 0; i < count; ++i) {
            const struct looked_operation *one = find_call(&finding->one, call, before + i);
            if (one != NULL && say_other_argument(finding, r, find_call(&finding->ranks[r], call, i), one))
                return true;
        }
        before += is_of_each ? 0 : count;
    }
    return false;
}

bool
place_find_in_turns(const struct finding *finding)
{
    for (size_t at = 0; at < finding->one.count && finding->question->takes_turns; ++at) {
        const struct looked_operation *call = &finding->one.operations[at];
        const bool is_counted = finding->matters[at] != 0 && place_has(finding->question, call) &&
                                !call->header->from_host && strcmp(call->header->name, LOOK_REDUCES) != 0;
        if (!is_counted || ANY(it, finding->one.operations, at, looked_is_one_call(it, call)))
            continue;
        if (say_other_count(finding, at) || say_other_turn(finding, at))
            return true;
    }
    return false;
}

/* ---- an update without DDP_STEP ---- */

/* Whether the operation sets the gradient to a constant: what is computed there afterwards is no average. */
static bool
clears(const struct looked_operation *op, const struct look_argument *gradient)
{
    return strncmp(op->header->name, "cuMemset", strlen("cuMemset")) == 0 &&
           ANY(it, op->arguments, op->header->arguments, it->tensor == gradient->tensor && it->end > 0);
}

/* The last operation before `at` that has computed the gradient after it was cleared, without a DDP_STEP in between;
 * NULL: there is none. */
static const struct looked_operation *
find_computed(const struct looked *one, size_t at, const struct look_argument *gradient)
{
    const struct looked_operation *last = NULL;
    while (at-- > 0) {
        const struct looked_operation *op = &one->operations[at];
        if (strcmp(op->header->name, LOOK_STEPS) == 0)
            return NULL;
        if (clears(op, gradient))
            return last;
        const bool writes =
            ANY(it, op->arguments, op->header->arguments, it->tensor == gradient->tensor && it->end > 0);
        last = last == NULL && writes ? op : last;
    }
    return NULL;
}

/* Says that the update reads a gradient that was computed after the last DDP_STEP. Whether it does. */
static bool
say_without_step(const struct finding *finding, const struct looked_operation *update)
{
    FOR_EACH(it, update->arguments, update->header->arguments) {
        if (!place_is_of(it, CHECK_GRADIENT) || it->end > 0)
            continue;
        const struct looked_operation *by =
            find_computed(&finding->one, (size_t)(update - finding->one.operations), it);
        if (by == NULL)
            continue;
        finding->place->tensor = it->tensor;
        return place_say(finding, PLACE_BEFORE, update, NULL,
                         "call DDP_STEP after backward in each batch, before the update: no condition may leave it out",
                         "it updates a parameter, and %s points to a gradient that DDP_STEP has not averaged since "
                         "%.260s computed it",
                         ARGUMENT_OF(update, it), NAME_OF(by));
    }
    return false;
}

bool
place_say_without_step(const struct finding *finding)
{
    if (!finding->question->is_update || finding->question->is_averaged)
        return false;
    return ANY(op, finding->one.operations, finding->one.count,
               place_has(finding->question, op) &&
                   ANY(it, op->arguments, op->header->arguments, place_is_of(it, CHECK_PARAMETER) && it->end > 0) &&
                   say_without_step(finding, op));
}

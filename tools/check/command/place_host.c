/*
 * place_host.c - the place (place.h) is the program's own code on the host: what all operations of the device make is
 * right, and the tensor differs all the same, as managed memory does that the host clips or updates.
 */
#include "tools/check/command/relation.h"

/* Whether an operation of this process, or of this rank, changes the tensor that the question is about. */
static bool
changes_target(const struct finding *finding, const struct looked *looked)
{
    return ANY(op, looked->operations, looked->count,
               ANY_NUMBER(a, 0, op->header->arguments, place_is_target(finding->question, op, a)));
}

/* The last operation in one process that has changed the gradient; false: none has. */
static bool
find_last_writer(const struct finding *finding, struct where *last)
{
    for (*last = (struct where){.operation = finding->one.count, .after = true}; last->operation-- > 0;) {
        const struct looked_operation *op = &finding->one.operations[last->operation];
        for (last->argument = 0; last->argument < op->header->arguments; ++last->argument) {
            if (place_is_target(finding->question, op, (uint32_t)last->argument))
                return true;
        }
    }
    return false;
}

/* Says that the host changes a gradient before its average: as the device has left it it is the mean, and in
 * DDP_STEP it is another one. Whether it is so. */
static bool
say_changed_before(const struct finding *finding)
{
    struct where last;
    if (!find_last_writer(finding, &last) || relation_missing_on(finding, last.operation) >= 0)
        return false;
    if (!relation_is_mean(finding, &last))
        return false;
    struct place *place = finding->place;
    place->kind = PLACE_BEFORE;
    place->advice = "call DDP_STEP before the host clips, scales or adds to gradients: a norm or a threshold of the "
                    "rank's own gradient is not that of the average";
    snprintf(place->text, sizeof(place->text),
             "the host changes this gradient after %s, its last operation, and before DDP_STEP: until then the mean of "
             "the ranks' is one process's",
             NAME_OF(&finding->one.operations[last.operation]));
    return true;
}

/* Whether the operation, after DDP_STEP, finds a gradient that no operation has changed since, and that is not the
 * same average on all ranks and in one process. */
static bool
finds_other_average(const struct finding *finding, const struct where *where)
{
    const struct looked_operation *op = &finding->one.operations[where->operation];
    const struct look_argument *it = &op->arguments[where->argument];
    struct where by;
    if (!place_is_of(it, CHECK_GRADIENT) || relation_missing_on(finding, where->operation) >= 0)
        return false;
    if (place_find_writer(&finding->one, where->operation, it, finding->question->interval, &by))
        return false;
    enum relation relation = relation_of(finding, where);
    return relation != RELATION_SAME && relation != RELATION_UNKNOWN;
}

/* Says that the host has written to a gradient after its average, where an operation finds other values there than in
 * one process, and none has changed it. Whether it does. */
static bool
say_gradient_written_after(const struct finding *finding)
{
    const struct place_question *question = finding->question;
    for (struct where where = {.operation = 0}; where.operation < finding->one.count; ++where.operation) {
        const struct looked_operation *op = &finding->one.operations[where.operation];
        if (op->header->interval != question->interval || strcmp(op->header->name, LOOK_STEPS) == 0)
            continue;
        for (where.argument = 0; where.argument < op->header->arguments; ++where.argument) {
            if (!finds_other_average(finding, &where))
                continue;
            struct place *place = finding->place;
            place->kind = PLACE_BEFORE;
            place->tensor = op->arguments[where.argument].tensor;
            place->advice = "call DDP_STEP after all of backward, the host's part of it, too";
            snprintf(
                place->text, sizeof(place->text),
                "the host writes to a gradient after DDP_STEP has averaged it: no operation of the device has, and "
                "%s finds other values there than one process",
                NAME_OF(op));
            place_add_values(finding, &where);
            return true;
        }
    }
    return false;
}

/* Says that the host updates the parameter, if no operation changes it. Whether it does. */
static bool
say_updated_by_host(const struct finding *finding)
{
    const struct looked *one = &finding->one;
    const struct looked_operation *next =
        FIND(op, one->operations, one->count,
             op->header->interval == finding->question->interval && strcmp(op->header->name, LOOK_STEPS) != 0);
    if (next == NULL)
        return false;
    struct place *place = finding->place;
    place->kind = PLACE_UPDATED;
    place->advice =
        "in the host's update read gradients after DDP_STEP only: moments, masks, norms and thresholds that "
        "it computes of them before are the rank's own; and let no learning rate depend on the rank, on "
        "the number of ranks or on the share";
    snprintf(place->text, sizeof(place->text),
             "the host updates this memory between DDP_STEP and %s: no operation that is given it changes it",
             NAME_OF(next));
    return true;
}

bool
place_say_host(const struct finding *finding)
{
    const struct place_question *question = finding->question;
    if (!question->differs)
        return false;
    if (question->tensor == 0 || question->is_reduced || question->is_early || question->has_graphs)
        return false;
    if (!question->is_update)
        return say_changed_before(finding);
    if (question->lacks_gradients || changes_target(finding, &finding->one) ||
        ANY(rank, finding->ranks, (size_t)question->ranks, changes_target(finding, rank)))
        return false;
    return say_gradient_written_after(finding) || say_updated_by_host(finding);
}

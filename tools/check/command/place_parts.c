/*
 * place_parts.c - the place (place.h) in a step of several micro-batches, or of one record after the other. A rank's
 * need not be shares of one process's, and may be fewer; together they are the batch. So what one call of the program's
 * makes counts in all of them together.
 */
#include "tools/check/command/relation.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

/* An operation that changes a gradient by a call that has changed it before, in the step; the count: there is none. */
static size_t
find_repeated(const struct looked *one)
{
    for (size_t at = 0; at < one->count; ++at) {
        const struct looked_operation *op = &one->operations[at];
        FOR_EACH(it, op->arguments, op->header->arguments) {
            const size_t a = (size_t)(it - op->arguments);
            bool is_gradient = it->end > 0 && place_is_of(it, CHECK_GRADIENT);
            if (is_gradient && ANY(earlier, one->operations, at,
                                   looked_is_one_call(op, earlier) && earlier->arguments[a].address == it->address))
                return at;
        }
    }
    return one->count;
}

static bool
comes_once(const struct looked *one, size_t at)
{
    return !ANY(op, one->operations, one->count,
                op != &one->operations[at] && looked_is_one_call(op, &one->operations[at]));
}

/* By operation of one process: whether it gets a parameter, or what an earlier such one has computed. The caller
 * frees the list. */
static bool *
find_trained(const struct finding *finding)
{
    const struct looked *one = &finding->one;
    bool *is_trained = xcalloc(one->count, sizeof(*is_trained));
    struct where by;
    for (size_t at = 0; at < one->count; ++at) {
        FOR_EACH_UNTIL(it, one->operations[at].arguments, one->operations[at].header->arguments, is_trained[at]) {
            bool is_parameter = place_is_of(it, CHECK_PARAMETER);
            bool is_read = it->is_memory && place_find_writer(one, at, it, finding->question->since, &by);
            is_trained[at] = is_parameter || (is_read && is_trained[by.operation]);
        }
    }
    return is_trained;
}

/* Whether the operation leaves rows of the share, so memory that is not the same on all ranks. */
static bool
leaves_rows(const struct finding *finding, size_t at)
{
    const struct looked_operation *op = &finding->one.operations[at];
    struct where where = {.operation = at, .after = true};
    for (; where.argument < op->header->arguments; ++where.argument) {
        const struct look_argument *it = &op->arguments[where.argument];
        bool is_result = it->is_memory && it->end > 0 && it->tensor == 0;
        if (is_result && relation_of(finding, &where) != RELATION_SAME)
            return true;
    }
    return false;
}

/* Whether the operation gets this size of the rank's share among its numbers. */
static bool
gets_size(const struct finding *finding, size_t at, double size)
{
    const struct looked_operation *op = &finding->one.operations[at];
    for (struct where where = {.operation = at}; where.argument < op->header->arguments; ++where.argument) {
        const struct look_argument *it = &op->arguments[where.argument];
        if (!it->is_memory && it->value == size && place_is_size(finding, &where))
            return true;
    }
    return false;
}

/* Whether operation `at` gets each size that `other` gets, of which there is one at least: neither has a part of the
 * share alone. */
static bool
have_one_size(const struct finding *finding, size_t at, size_t other)
{
    const struct looked_operation *op = &finding->one.operations[other];
    bool any = false;
    for (struct where size = {.operation = other}; size.argument < op->header->arguments; ++size.argument) {
        const struct look_argument *it = &op->arguments[size.argument];
        if (it->is_memory || !place_is_size(finding, &size))
            continue;
        if (!gets_size(finding, at, it->value))
            return false;
        any = true;
    }
    return any;
}

/* Whether the step is one pass over the share, with no loop over micro-batches: all ranks make each operation of one
 * process, and one of the share's size comes once, as a loss does. What a call makes several times, of the same
 * size, is one layer in several places, or two losses. */
static bool
is_one_pass(const struct finding *finding, size_t repeated)
{
    const struct looked *one = &finding->one;
    OWNED bool *is_trained = find_trained(finding);
    bool any = false;
    for (size_t at = 0; at < one->count; ++at) {
        if (finding->matters[at] == 0 || !place_has(finding->question, &one->operations[at]))
            continue;
        if (relation_missing_on(finding, at) >= 0)
            return false;
        any = any || (is_trained[at] && comes_once(one, at) && leaves_rows(finding, at) &&
                      have_one_size(finding, at, repeated));
    }
    return any;
}

bool
place_is_in_parts(const struct finding *finding)
{
    const size_t repeated = find_repeated(&finding->one);
    if (repeated == finding->one.count)
        return false;
    return relation_missing_on(finding, repeated) >= 0 || !is_one_pass(finding, repeated);
}

/* Whether the argument is one of its own in the first of several operations that one call makes in one process, as
 * of the one that clears what the others add to, and on some rank it is not. A rank's operations have one of both
 * values: it is no size. */
static bool
is_first_alone(const struct finding *finding, const struct where *where)
{
    const struct looked *one = &finding->one;
    const struct look_argument *it;
    double first = relation_argument(finding, -1, where)->value, others = first;
    for (size_t i = 0; i < one->count; ++i) {
        if (i == where->operation || !looked_is_one_call(&one->operations[i], &one->operations[where->operation]))
            continue;
        double value = one->operations[i].arguments[where->argument].value;
        if (i < where->operation || value == first || (others != first && value != others))
            return false;
        others = value;
    }
    return others != first &&
           ANY_NUMBER(r, 0, finding->question->ranks,
                      (it = relation_argument(finding, r, where)) != NULL && it->value == others) &&
           ALL(rank, finding->ranks, (size_t)finding->question->ranks,
               ALL(op, rank->operations, rank->count,
                   !looked_is_one_call(op, &one->operations[where->operation]) ||
                       op->arguments[where->argument].value == first ||
                       op->arguments[where->argument].value == others));
}

/* Says the place if a rank's first call in the step has a number that in one process only the first call of the whole
 * batch has, such as a flag to clear: each rank must do what the first call does. Whether it does. */
static bool
find_first_alone(const struct finding *finding)
{
    for (struct where where = {.operation = 0}; where.operation < finding->one.count; ++where.operation) {
        const struct looked_operation *op = &finding->one.operations[where.operation];
        bool matters = finding->matters[where.operation] != 0 && place_has(finding->question, op);
        for (where.argument = 0; where.argument < op->header->arguments && matters; ++where.argument) {
            if (!op->arguments[where.argument].is_memory && is_first_alone(finding, &where))
                return place_say(
                    finding, PLACE_SCALAR, op, NULL,
                    "on each rank the first call of a step must do what one process's first call does, for example "
                    "clear the gradient: compare with the share's `first` item, not with item 0",
                    "%s of its first call in the step is %s", ARGUMENT_OF(op, &op->arguments[where.argument]),
                    VALUES_AT(finding, &where));
        }
    }
    return false;
}

bool
place_find_in_parts(const struct finding *finding)
{
    if (place_find_in_turns(finding) || find_first_alone(finding) || place_say_items(finding, 0))
        return true;
    for (struct where where = {.after = true}; where.operation < finding->one.count; ++where.operation) {
        const struct looked_operation *op = &finding->one.operations[where.operation];
        where.argument = 0;
        enum relation copied = op->header->from_host && finding->matters[where.operation] != 0
                                   ? relation_of(finding, &where)
                                   : RELATION_SAME;
        if (copied == RELATION_NONE || copied == RELATION_UNKNOWN)
            return false; /* the data may be other ones */
        bool is = finding->matters[where.operation] != 0 && place_has(finding->question, op) &&
                  !op->header->from_host &&
                  !ANY(it, finding->one.operations, where.operation, looked_is_one_call(it, op)) &&
                  relation_missing_on(finding, where.operation) < 0;
        for (where.argument = 0; where.argument < op->header->arguments && is; ++where.argument) {
            const struct look_argument *it = &op->arguments[where.argument];
            if (!it->is_memory || it->end == 0 || (finding->matters[where.operation] & 1U << where.argument) == 0 ||
                relation_of_call(finding, &where) != RELATION_NONE)
                continue;
            if (place_say_scalar(finding, where.operation, SCALAR_PART))
                return true;
            return place_say(
                finding, PLACE_SHARE, op, &where,
                "look in this kernel for statistics of the micro-batch, for random numbers that depend on a row's "
                "number in the micro-batch, and for a factor that depends on the rank's number of micro-batches",
                "over all its calls of the step, the memory that %s points to holds neither rows of one process's "
                "memory nor parts of a sum over rows",
                ARGUMENT_OF(op, it));
        }
    }
    return false;
}

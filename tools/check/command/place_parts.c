/*
 * place_parts.c - the place (place.h) in a step of several micro-batches, or of one record after the other. A rank's
 * need not be shares of one process's, and may be fewer; together they are the batch. So what one call of the program's
 * makes counts in all of them together.
 */
#include "tools/check/command/relation.h"

bool
place_is_in_parts(const struct looked *one)
{
    return ANY(
        step, one->steps, one->count,
        ANY_NUMBER(a, 0, step->its->arguments,
                   step->list[a].end > 0 && step->list[a].tensor >> 24 == 1 + CHECK_GRADIENT &&
                       ANY(earlier, one->steps, (size_t)(step - one->steps),
                           looked_is_one_call(step, earlier) && earlier->list[a].address == step->list[a].address)));
}

/* Of operations that one call makes several times, the first has an argument of its own in one process, as one that
 * clears what the others add to; on some rank it has not. A rank's operations have one of both: it is no size. */
static bool
is_first_alone(const struct finding *finding, const struct where *where)
{
    const struct looked *one = &finding->one;
    const struct look_argument *it;
    double first = relation_argument(finding, -1, where)->value, others = first;
    for (size_t i = 0; i < one->count; ++i) {
        if (i == where->at || !looked_is_one_call(&one->steps[i], &one->steps[where->at]))
            continue;
        double value = one->steps[i].list[where->argument].value;
        if (i < where->at || value == first || (others != first && value != others))
            return false;
        others = value;
    }
    return others != first &&
           ANY_NUMBER(r, 0, finding->question->ranks,
                      (it = relation_argument(finding, r, where)) != NULL && it->value == others) &&
           ALL(rank, finding->ranks, (size_t)finding->question->ranks,
               ALL(step, rank->steps, rank->count,
                   !looked_is_one_call(step, &one->steps[where->at]) || step->list[where->argument].value == first ||
                       step->list[where->argument].value == others));
}

static bool
find_first_alone(const struct finding *finding)
{
    for (struct where where = {.at = 0}; where.at < finding->one.count; ++where.at) {
        const struct step *step = &finding->one.steps[where.at];
        bool matters = finding->matters[where.at] != 0 && place_has(finding->question, step);
        for (where.argument = 0; where.argument < step->its->arguments && matters; ++where.argument) {
            if (!step->list[where.argument].is_memory && is_first_alone(finding, &where))
                return place_say(
                    finding, PLACE_SCALAR, step, NULL,
                    "on each rank the first call of a step must do what one process's first call does, for example "
                    "clear the gradient: compare with the share's `first` item, not with item 0",
                    "%s of its first call in the step is %s", ARGUMENT_OF(step, &step->list[where.argument]),
                    VALUES_AT(finding, &where));
        }
    }
    return false;
}

bool
place_find_in_parts(const struct finding *finding)
{
    if (find_first_alone(finding) || place_say_items(finding, 0))
        return true;
    for (struct where where = {.after = true}; where.at < finding->one.count; ++where.at) {
        const struct step *step = &finding->one.steps[where.at];
        where.argument = 0;
        enum relation copied =
            step->its->from_host && finding->matters[where.at] != 0 ? relation_of(finding, &where) : RELATION_SAME;
        if (copied == RELATION_NONE || copied == RELATION_UNKNOWN)
            return false; /* the data may be other ones */
        bool is = finding->matters[where.at] != 0 && place_has(finding->question, step) && !step->its->from_host &&
                  !ANY(it, finding->one.steps, where.at, looked_is_one_call(it, step)) &&
                  relation_missing_on(finding, where.at) < 0;
        for (where.argument = 0; where.argument < step->its->arguments && is; ++where.argument) {
            const struct look_argument *it = &step->list[where.argument];
            if (!it->is_memory || it->end == 0 || (finding->matters[where.at] & 1U << where.argument) == 0 ||
                relation_of_call(finding, &where) != RELATION_NONE)
                continue;
            if (place_say_scalar(finding, where.at, SCALAR_PART))
                return true;
            return place_say(
                finding, PLACE_SHARE, step, &where,
                "look in this kernel for statistics of the micro-batch, for random numbers that depend on a row's "
                "number in the micro-batch, and for a factor that depends on the rank's number of micro-batches",
                "over all its calls of the step, the memory that %s points to holds neither rows of one process's "
                "memory nor parts of a sum over rows",
                ARGUMENT_OF(step, it));
        }
    }
    return false;
}

/* place_scalars.c - numbers among the arguments of an operation, on the ranks and in one process (relation.h). */
#include "tools/check/command/relation.h"

#include "tools/check/place/rows.h"
#include "tools/near/near.h"

#include <math.h>

static const double near_enough = NEAR_NUMBER;

static bool
is_near(double value, double one)
{
    return fabs(value - one) <= near_enough * fabs(one);
}

/* ---- one number ---- */

/* What the ranks' numbers are together. */
struct together {
    double sum, inverse; /* of the ranks', and of one process's divided by each */
    int same, weighed;   /* ranks that have one process's, or have it once it is weighed */
    bool rises, ends;    /* whole numbers that rise with the rank, and are one process's on the first, or the last */
    bool are_alike;      /* on all ranks */
    bool are_numbers;    /* on all ranks */
};

/* How a number among the arguments lies on all ranks beside one process's: its sum over ranks, on how many ranks it is
 * equal, whether it rises from rank to rank. */
static struct together
put_together(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = relation_argument(finding, -1, where);
    const int ranks = finding->question->ranks;
    struct together all = {.rises = mine->is_whole, .ends = mine->is_whole, .are_alike = true, .are_numbers = true};
    double one = mine->value, before = 0;
    for (int r = 0; r < ranks; ++r) {
        const struct look_argument *theirs = relation_argument(finding, r, where);
        double own = theirs->value;
        bool rises = theirs->is_whole && (r == 0 || own > before);
        all.are_numbers = all.are_numbers && !theirs->is_memory;
        all.same += is_near(own, one);
        all.weighed += is_near(own * relation_weight(finding, r) / ranks, one);
        all.rises = all.rises && rises && (r > 0 || own == one);
        all.ends = all.ends && rises && (r < ranks - 1 || own == one);
        all.are_alike = all.are_alike && (r == 0 || own == before);
        all.sum += own;
        all.inverse += one / own;
        before = own;
    }
    return all;
}

/* Whether the number is a count of the share, by which the ranks' gradients are to be weighed. */
static bool
weighs_gradients(const struct finding *finding, const struct where *where)
{
    return !finding->question->is_uneven && !finding->question->is_update && place_weighs(finding, where);
}

/* Whether the number is the size of something that ranks divide: the ranks' numbers add up to one process's, or to less
 * than one more for each rank where a division rounds up. */
static bool
is_size(const struct together *all, const struct look_argument *mine, int ranks)
{
    double one = mine->value;
    bool adds = is_near(all->sum, one), adds_rounded = all->sum > one && all->sum < one + ranks;
    if (adds && all->are_alike && one == trunc(one))
        return true;
    return mine->is_whole && (adds || adds_rounded);
}

/* Numbers that rise with the rank are those of the first items of shares, but for the rank itself, and what is as large
 * as a date. */
static enum scalar_level
judge_rising(const struct finding *finding, const struct where *where)
{
    static const double seconds_of_2001 = 1e9;
    const double one = relation_argument(finding, -1, where)->value;
    const bool has_items = finding->question->items >= 2 * (uint64_t)finding->question->ranks;
    const bool is_rank = has_items && ALL_NUMBERS(r, 0, finding->question->ranks,
                                                  relation_argument(finding, r, where)->value == one + r);
    return is_rank || one > seconds_of_2001 ? SCALAR_SEED : SCALAR_RISES;
}

/* How suspicious a number among the arguments is, from the ranks' numbers and one process's alone (enum
 * scalar_level). */
static enum scalar_level
judge_scalar(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = relation_argument(finding, -1, where);
    const int ranks = finding->question->ranks;
    const struct together all = put_together(finding, where);
    bool is_right_weighed = all.weighed == ranks && relation_weight(finding, 0) != 1;
    if (!all.are_numbers || all.same == ranks || is_right_weighed)
        return SCALAR_ALIKE;
    bool adds = is_near(all.sum, mine->value), divides = fabs(all.inverse - 1) <= near_enough;
    if (all.rises)
        return judge_rising(finding, where);
    if (all.ends)
        return SCALAR_SIZE;
    if (adds && !all.are_alike && weighs_gradients(finding, where))
        return SCALAR_WEIGHS;
    if (is_size(&all, mine, ranks))
        return SCALAR_SIZE;
    if (!adds && !divides)
        return SCALAR_UNEXPLAINED;
    if (finding->question->is_update && finding->question->is_undone && all.are_alike)
        return SCALAR_ALIKE; /* it divides sums */
    return all.are_alike ? SCALAR_PART : SCALAR_COUNT;
}

/* ---- the same number a step before ---- */

/* Finds, in *then, the same launch in the step before. False: there is none, not all ranks make it, or it has
 * changed nothing, as a decay of zeros. */
static bool
find_before(const struct finding *finding, const struct where *where, struct where *then)
{
    const struct looked_operation *op = &finding->one.operations[where->operation];
    *then = *where;
    while (then->operation-- > 0) {
        const struct looked_operation *earlier = &finding->one.operations[then->operation];
        bool is_same = strcmp(earlier->header->name, op->header->name) == 0 &&
                       strcmp(earlier->header->place, op->header->place) == 0 &&
                       earlier->header->arguments == op->header->arguments;
        if (!is_same || earlier->header->interval >= finding->question->since)
            continue;
        return relation_missing_on(finding, then->operation) < 0 &&
               ANY(it, earlier->arguments, earlier->header->arguments, it->end > 0 && it->before != it->after);
    }
    return false;
}

static double
value_of(const struct finding *finding, int rank, const struct where *where)
{
    return relation_argument(finding, rank, where)->value;
}

/* Whether all ranks have the number that they had a step before, and that was right. */
static bool
is_as_before(const struct finding *finding, const struct where *where, const struct where *then)
{
    return ALL_NUMBERS(r, -1, finding->question->ranks, value_of(finding, r, where) == value_of(finding, r, then));
}

/* Whether each rank's number has advanced, since the step before, by its part of what one process's has. */
static bool
advances_by_share(const struct finding *finding, const struct where *where, const struct where *then)
{
    const int ranks = finding->question->ranks;
    double one = value_of(finding, -1, where) - value_of(finding, -1, then);
    return one != 0 &&
           ALL_NUMBERS(r, 0, ranks, is_near((value_of(finding, r, where) - value_of(finding, r, then)) * ranks, one));
}

/* As it is, but for what the step before shows. */
static enum scalar_level
judge_with_step_before(const struct finding *finding, const struct where *where, bool *advances_p)
{
    enum scalar_level level = judge_scalar(finding, where);
    struct where then;
    *advances_p = false;
    if (level == SCALAR_ALIKE || !find_before(finding, where, &then))
        return level;
    if (is_as_before(finding, where, &then))
        return SCALAR_ALIKE;
    *advances_p = level < SCALAR_PART && advances_by_share(finding, where, &then);
    return *advances_p ? SCALAR_UNEXPLAINED : level;
}

/* Whether the number rises from rank to rank by the size of the share, as the first item does, and the operation
 * gets that size, too. */
static bool
is_of_first(const struct finding *finding, const struct where *where)
{
    const struct looked_operation *op = &finding->one.operations[where->operation];
    double begin = value_of(finding, 0, where);
    for (struct where size = {.operation = where->operation}; size.argument < op->header->arguments; ++size.argument) {
        if (op->arguments[size.argument].is_memory || judge_scalar(finding, &size) != SCALAR_SIZE)
            continue;
        if (ALL_NUMBERS(r, 0, finding->question->ranks,
                        value_of(finding, r, where) - begin == r * value_of(finding, r, &size)))
            return true;
    }
    return false;
}

/* ---- the operation ---- */

/* Whether the operation changes a gradient after DDP_STEP by a number that is 1/N of one process's, or N times it. */
static bool
scales_average(const struct finding *finding, const struct where *where)
{
    const struct looked_operation *op = &finding->one.operations[where->operation];
    const int ranks = finding->question->ranks;
    double one = value_of(finding, -1, where);
    bool is_of_gradient =
        ANY(it, op->arguments, op->header->arguments, place_is_of(it, CHECK_GRADIENT) && it->end > 0 && !it->is_before);
    if (!finding->question->is_update || !is_of_gradient)
        return false;
    return ALL_NUMBERS(r, 0, ranks, is_near(value_of(finding, r, where) * ranks, one)) ||
           ALL_NUMBERS(r, 0, ranks, is_near(value_of(finding, r, where), one * ranks));
}

/* Fills what the sentence on a number says: the operation, the argument, the ranks' values, the program's variable and
 * what it is computed from. */
static void
describe(const struct finding *finding, const struct where *where, struct place_scalar *scalar)
{
    const struct looked_operation *op = &finding->one.operations[where->operation];
    const struct look_argument *it = &op->arguments[where->argument];
    struct origin origin;
    (void)place_name_operation(op, scalar->operation);
    snprintf(scalar->argument, sizeof(scalar->argument), "%s", ARGUMENT_OF(op, it));
    (void)place_list_values(finding, where, scalar->values);
    if (origin_find(op->header->place, it->number & 0xffff, &origin)) {
        snprintf(scalar->variable, sizeof(scalar->variable), "%s", origin.name);
        snprintf(scalar->line, sizeof(scalar->line), "%s", origin.place);
        snprintf(scalar->computed_from, sizeof(scalar->computed_from), "%s", origin.from);
    }
    scalar->is_first_item = scalar->level == SCALAR_RISES && is_of_first(finding, where);
    scalar->is_computed_of_share = origin.is_share;
    scalar->scales_average = scales_average(finding, where);
    bool is_unexplained = scalar->level == SCALAR_UNEXPLAINED && !scalar->advances_by_share;
    if (is_unexplained && !origin.is_share)
        (void)place_describe_read(finding, where->operation, scalar->host_reads);
}

bool
place_is_size(const struct finding *finding, const struct where *where)
{
    return judge_scalar(finding, where) == SCALAR_SIZE;
}

/* Whether the operation also gets the size by which it divides, where the number is the share's part of one
 * process's. */
static bool
is_of_mean(const struct finding *finding, const struct where *where)
{
    const struct looked_operation *op = &finding->one.operations[where->operation];
    double one = value_of(finding, -1, where);
    for (struct where size = {.operation = where->operation}; size.argument < op->header->arguments; ++size.argument) {
        if (op->arguments[size.argument].is_memory || judge_scalar(finding, &size) != SCALAR_SIZE)
            continue;
        if (ALL_NUMBERS(
                r, 0, finding->question->ranks,
                is_near(value_of(finding, r, where) * value_of(finding, r, &size), one * value_of(finding, -1, &size))))
            return true;
    }
    return false;
}

void
place_find_scalar(const struct finding *finding, size_t at, struct place_scalar *scalar)
{
    const struct looked_operation *op = &finding->one.operations[at];
    struct where found = {.operation = at};
    *scalar = (struct place_scalar){.level = SCALAR_ALIKE};
    for (struct where where = {.operation = at}; where.argument < op->header->arguments; ++where.argument) {
        bool advances;
        if (op->arguments[where.argument].is_memory)
            continue;
        enum scalar_level level = judge_with_step_before(finding, &where, &advances);
        bool is_mean = level == SCALAR_PART && is_of_mean(finding, &where);
        bool says_more = scalar->is_of_mean ? level == SCALAR_RISES || level > SCALAR_PART : level > scalar->level;
        bool is_seed = level == SCALAR_RISES && scalar->level == SCALAR_RISES && is_of_first(finding, &found) &&
                       !is_of_first(finding, &where);
        if (!is_seed && (!says_more || (is_mean && scalar->level == SCALAR_RISES)))
            continue;
        scalar->level = level;
        scalar->is_of_mean = is_mean;
        scalar->advances_by_share = advances;
        found = where;
    }
    if (scalar->level > SCALAR_ALIKE)
        describe(finding, &found, scalar);
}

bool
place_say_scalar(const struct finding *finding, size_t at, enum scalar_level least)
{
    struct place_scalar scalar;
    place_find_scalar(finding, at, &scalar);
    bool is_explained = scalar.is_of_mean && !finding->question->is_update;
    if (scalar.level < least || is_explained)
        return false;
    place_put_scalar(&scalar, finding->question->is_update, finding->question->is_uneven, finding->place->is_probable,
                     finding->place);
    return true;
}

const char *
place_describe_share(const struct finding *finding, size_t at, char text[OPERATION_SENTENCE_BYTES])
{
    const struct looked_operation *op = &finding->one.operations[at];
    text[0] = '\0';
    for (struct where where = {.operation = at}; where.argument < op->header->arguments; ++where.argument) {
        const struct look_argument *it = &op->arguments[where.argument];
        if (it->is_memory || judge_scalar(finding, &where) != SCALAR_SIZE)
            continue;
        snprintf(text, OPERATION_SENTENCE_BYTES, ", and %s, which depends on the size of the share, is %s",
                 ARGUMENT_OF(op, it), VALUES_AT(finding, &where));
        return text;
    }
    return text;
}

/*
 * place_divisor.c - gradients are the Nth part of one process's: which number, on each rank, divides them by the whole
 * batch (relation.h)?
 */
#include "tools/check/command/relation.h"

#include "tools/near/element.h"

#include <math.h>

/* A number of an operation, as a divisor of the gradients. */
struct divisor {
    struct where where;
    double number;    /* that it divides by: 32 for 1/32, and for 32 */
    bool is_inverse;  /* it is 1/32 */
    bool is_of_width; /* it may also be a width of rows */
};

/* ---- the batch ---- */

/* Whether the number is a multiple of the size of something that adds up over the ranks. Asked where the program
 * does not say how many items the batch has. */
static bool
is_multiple_of_size(const struct finding *finding, double number)
{
    for (struct where where = {.operation = 0}; where.operation < finding->one.count; ++where.operation) {
        const struct looked_operation *op = &finding->one.operations[where.operation];
        if (relation_missing_on(finding, where.operation) >= 0)
            continue;
        for (where.argument = 0; where.argument < op->header->arguments; ++where.argument) {
            const struct look_argument *it = &op->arguments[where.argument];
            bool is_size = !it->is_memory && it->value > 1 && place_is_size(finding, &where);
            if (is_size && fmod(number, it->value) == 0)
                return true;
        }
    }
    return false;
}

/* Whether nothing but the batch explains the number: other numbers are right as they are, as a slope of 1/50. */
static bool
is_of_batch(const struct finding *finding, double number)
{
    uint64_t items = finding->question->items;
    if (items > 1)
        return fmod(number, (double)items) == 0;
    return is_multiple_of_size(finding, number);
}

/* Whether the number is a width: of rows that the operation writes, of which the last elements may stay, or of a
 * parameter that it gets. */
static bool
is_width(const struct finding *finding, size_t at, uint64_t number)
{
    const struct looked_operation *own = &finding->ranks[0].operations[finding->ranks[0].matches[at]];
    uint64_t rows = number * finding->question->items / (uint64_t)finding->question->ranks * sizeof(float);
    return ANY(it, own->arguments, own->header->arguments,
               it->is_memory && (place_is_of(it, CHECK_PARAMETER) ? it->bytes / element_size(it->type) % number == 0
                                                                  : it->end <= rows && it->end > rows - rows / 10));
}

/* ---- which number? ---- */

typedef bool divisor_fn(const struct finding *finding, const struct divisor *divisor);

static bool
is_inverse_of_items(const struct finding *finding, const struct divisor *divisor)
{
    return divisor->is_inverse && divisor->number == (double)finding->question->items;
}

static bool
is_items(const struct finding *finding, const struct divisor *divisor)
{
    return !divisor->is_inverse && divisor->number == (double)finding->question->items && !divisor->is_of_width;
}

static bool
is_items_or_width(const struct finding *finding, const struct divisor *divisor)
{
    return !divisor->is_inverse && divisor->number == (double)finding->question->items;
}

static bool
is_inverse_of_batch(const struct finding *finding, const struct divisor *divisor)
{
    return divisor->is_inverse && is_of_batch(finding, divisor->number);
}

/* The first kind that any number is of says most. */
static const struct kind {
    divisor_fn *is_it;
    bool is_sure;
} kinds[] = {{is_inverse_of_items, true}, {is_items, false}, {is_items_or_width, false}, {is_inverse_of_batch, false}};

/* False: the argument is no number that can divide. */
static bool
read_divisor(const struct finding *finding, const struct where *where, struct divisor *divisor)
{
    const struct look_argument *it = relation_argument(finding, -1, where);
    if (it->is_memory || !place_is_alike(finding, where))
        return false;
    double inverse = 1 / it->value;
    bool is_inverse = inverse > 1.5 && fabs(inverse - rint(inverse)) < 1e-6 * inverse;
    *divisor =
        (struct divisor){.where = *where, .number = is_inverse ? rint(inverse) : it->value, .is_inverse = is_inverse};
    divisor->is_of_width = divisor->number == (double)finding->question->items &&
                           is_width(finding, where->operation, finding->question->items);
    return is_inverse || it->value > 1;
}

/* Makes the argument the place: it divides by the whole batch, and must divide by the share. */
static void
say(const struct finding *finding, const struct divisor *divisor, bool is_sure)
{
    const struct looked_operation *op = &finding->one.operations[divisor->where.operation];
    bool are_items = divisor->number == (double)finding->question->items;
    finding->place->is_probable = !is_sure;
    place_say(finding, PLACE_SCALAR, op, NULL, "",
              "%s is %s%.0f on each rank and in one process, but must depend on the rank's share: %.0f %s the whole "
              "batch",
              ARGUMENT_OF(op, &op->arguments[divisor->where.argument]), divisor->is_inverse ? "1/" : "",
              divisor->number, divisor->number, are_items ? "items are" : "is of");
}

/* Says the first divisor of the step, in the order of operations, that is of this kind. False: there is none. */
static bool
say_if(const struct finding *finding, const struct kind *kind)
{
    for (struct where where = {.operation = 0}; where.operation < finding->one.count; ++where.operation) {
        if (finding->matters[where.operation] == 0 || relation_missing_on(finding, where.operation) >= 0)
            continue;
        for (where.argument = 0; where.argument < finding->one.operations[where.operation].header->arguments;
             ++where.argument) {
            struct divisor divisor;
            if (!read_divisor(finding, &where, &divisor) || !kind->is_it(finding, &divisor))
                continue;
            say(finding, &divisor, kind->is_sure);
            return true;
        }
    }
    return false;
}

bool
place_find_divisor(const struct finding *finding)
{
    return ANY(kind, kinds, sizeof(kinds) / sizeof(kinds[0]), say_if(finding, kind));
}

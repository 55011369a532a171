/* numbers.c - see numbers.h. */
#include "tools/near/numbers.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/each.h"
#include "tools/near/element.h"

#include <math.h>
#include <string.h>

void
numbers_free(const struct numbers *numbers)
{
    free(numbers->values);
}

/* ---- bytes ---- */

/* Of the numbers of that type the largest by the smallest, but for zeros; infinite: some are no ordinary ones. */
static double
spread_of(int type, const struct contents *contents, uint64_t first, uint64_t end)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < (end - first) / element_size(type); ++i) {
        double value = fabs(element_get(type, contents->data + first, i));
        if (value == 0)
            continue;
        if (!(value > 1e-30 && value < 1e30))
            return INFINITY;
        least = fmin(least, value);
        most = fmax(most, value);
    }
    return most > least ? most / least : 1;
}

/* The lower half of each double is 0, as of a short number. */
static bool
are_short_doubles(const struct contents *contents, uint64_t first, uint64_t end)
{
    for (size_t i = 0; i < (end - first) / sizeof(float); i += 2) {
        if (element_get(ELEMENT_INT32, contents->data + first, i) != 0)
            return false;
    }
    return true;
}

/* The lower half of a double is any float, or 0 of a short number; the upper halves are near each other. */
int
numbers_guess_type(const struct contents *contents, uint64_t first, uint64_t end)
{
    static const double usual = 1e6, any = 1e18;
    bool may_be_wide = (end - first) % sizeof(double) == 0;
    double narrow = spread_of(ELEMENT_FLOAT32, contents, first, end),
           wide = may_be_wide ? spread_of(ELEMENT_FLOAT64, contents, first, end) : INFINITY;
    if (end - first > sizeof(double) && wide < any && are_short_doubles(contents, first, end))
        return ELEMENT_FLOAT64;
    if (wide < INFINITY && (narrow == INFINITY || (narrow > usual && wide * wide < narrow)))
        return ELEMENT_FLOAT64;
    return narrow < INFINITY ? ELEMENT_FLOAT32 : ELEMENT_INT32;
}

/* What a number of the type may be off, where the largest is `most`. */
static double
unit_of(int type, double most)
{
    switch (type) {
    case ELEMENT_BFLOAT16:
        return most * 0x1p-8;
    case ELEMENT_FLOAT16:
        return most * 0x1p-11;
    default:
        return 0;
    }
}

struct numbers
numbers_read(const struct contents *contents, int type, uint64_t first, uint64_t end)
{
    end = end < contents->bytes ? end : contents->bytes;
    first = first < end ? first : end;
    type = type != 0 ? type : numbers_guess_type(contents, first, end);
    size_t each = element_size(type);
    first -= first % each; /* what was changed need not be the first half of a double */
    end += (each - end % each) % each;
    end -= end > contents->bytes ? each : 0;
    struct numbers numbers = {.values = xcalloc((end - first) / each + 1, sizeof(double)),
                              .count = (end - first) / each,
                              .are_whole = type > ELEMENT_BFLOAT16};
    double most = 0;
    for (size_t i = 0; i < numbers.count; ++i) {
        numbers.values[i] = element_get(type, contents->data + first, i);
        most = fmax(most, fabs(numbers.values[i]));
    }
    numbers.unit = unit_of(type, most);
    return numbers;
}

/* ---- numbers ---- */

double
numbers_norm(const double *list, const double *other, double factor, size_t count)
{
    double square = 0;
    for (size_t i = 0; i < count; ++i) {
        double value = list[i] - (other != NULL ? factor * other[i] : 0);
        square += value * value;
    }
    return sqrt(square);
}

bool
numbers_are_near(const struct numbers *numbers, const struct numbers *other, double factor, double unit)
{
    double most = fmax(numbers_norm(numbers->values, NULL, 0, numbers->count),
                       fabs(factor) * numbers_norm(other->values, NULL, 0, other->count));
    return numbers->count == other->count && numbers_norm(numbers->values, other->values, factor, other->count) <=
                                                 unit * sqrt((double)other->count) + NUMBERS_NEAR * most;
}

void
numbers_weigh(struct numbers *own, double weight)
{
    for (size_t i = 0; i < own->count && !own->are_whole; ++i)
        own->values[i] *= weight;
}

void
numbers_append(struct numbers *all, const struct numbers *own)
{
    all->values = xrealloc(all->values, (all->count + own->count + 1) * sizeof(double));
    for (size_t i = 0; i < own->count; ++i)
        all->values[all->count++] = own->values[i];
    all->are_whole = own->are_whole;
}

void
numbers_add(struct numbers *sum, const struct numbers *own)
{
    for (size_t i = 0; i < own->count && own->count == sum->count; ++i)
        sum->values[i] += own->values[i];
    if (sum->count == 0)
        numbers_append(sum, own);
}

COMPARES(by_value, double, (*a > *b) - (*a < *b))

bool
numbers_are_rows(const struct numbers *all, const struct numbers *one, int ranks)
{
    size_t count = all->count > one->count ? all->count : one->count;
    OWNED_NUMBERS left = {xcalloc(count + 1, sizeof(double)), .count = count},
                  right = {xcalloc(count + 1, sizeof(double)), .count = count};
    memcpy(left.values, all->values, all->count * sizeof(double));
    memcpy(right.values, one->values, one->count * sizeof(double));
    SORT(left.values, count, by_value);
    SORT(right.values, count, by_value);
    return numbers_are_near(&left, &right, 1, 0) ||
           (!one->are_whole &&
            (numbers_are_near(&left, &right, ranks, 0) || numbers_are_near(&left, &right, 1.0 / ranks, 0)));
}

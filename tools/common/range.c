/* range.c - see range.h. */
#include "tools/common/range.h"

#include <math.h>

void
range_add(struct range *range, double value)
{
    size_t at = range->count;
    if (at == RANGE_MOST_VALUES)
        return;
    for (; at > 0 && range->values[at - 1] > value; --at)
        range->values[at] = range->values[at - 1];
    range->values[at] = value;
    ++range->count;
}

double
range_middle(const struct range *range)
{
    return (range->values[(range->count - 1) / 2] + range->values[range->count / 2]) / 2.0;
}

static double
margin(const struct range *range)
{
    return fmax(3.0 * (range->values[range->count - 1] - range->values[0]) / (double)range->count,
                range_middle(range) / 20.0);
}

double
range_low(const struct range *range)
{
    return fmax(0.0, range->values[0] - margin(range));
}

double
range_high(const struct range *range)
{
    return range->values[range->count - 1] + margin(range);
}

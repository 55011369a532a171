/*
 * range.h - a figure that was measured in several stretches of a run: how far its values lie apart. For
 * the times of a plan. Pure.
 */
#ifndef DDPRUN_TOOLS_COMMON_RANGE_H
#define DDPRUN_TOOLS_COMMON_RANGE_H

#include <stddef.h>

enum { RANGE_MOST_VALUES = 9 };

/* Zeroed at first. */
struct range {
    double values[RANGE_MOST_VALUES]; /* sorted */
    size_t count;
};

void range_add(struct range *range, double value);

/* Of at least one value: the middle one, and where the next is to be expected. Of n values and the next one, each is as
 * likely the first or the last, so it lies outside of them in 2 of n + 1 cases: hence three n-ths of their spread more
 * on both sides, where of nine values about 19 of 20 lie, and a twentieth of the middle at least. */
double range_low(const struct range *range);
double range_middle(const struct range *range);
double range_high(const struct range *range);

#endif

/*
 * range.h - a figure that was measured several times: how far its values lie apart, and whether they say anything. One
 * way for `ddprun predict` and for the forecast of a plan. Pure.
 */
#ifndef DDPRUN_TOOLS_COMMON_RANGE_H
#define DDPRUN_TOOLS_COMMON_RANGE_H

#include <stdbool.h>
#include <stddef.h>

enum { RANGE_MOST_VALUES = 9, RANGE_LEAST_VALUES = 3 };

/* Zeroed at first. */
struct range {
    double values[RANGE_MOST_VALUES]; /* sorted */
    size_t count;
    double highest; /* before it was cut, */
    double most;    /* to this */
};

/* Takes one more value; of what cannot be more than `most` (INFINITY: nothing bounds it), that. */
void range_add(struct range *range, double value, double most);

/* Of at least one value: the middle one, and where the next is to be expected. Of n values and the next one, each is as
 * likely the first or the last, so it lies outside of them in 2 of n + 1 cases: hence three n-ths of their spread more
 * on both sides, where of nine values about 19 of 20 lie, and a twentieth of the middle at least. */
double range_low(const struct range *range);
double range_middle(const struct range *range);
double range_high(const struct range *range);

/* Some value was more than can be, or they lie further apart than a tenth. */
bool range_is_noisy(const struct range *range);

/* All values were more than can be. */
bool range_is_impossible(const struct range *range);

#endif

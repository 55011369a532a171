/*
 * change.h - how far an update is from the reference's, where both began with the same values. Pure.
 *
 * A relative difference of values says nothing of an update that moves them by less than the tolerance; so the
 * difference is held against what the reference's update has changed. The same change ends a unit in the last place
 * away where it was rounded otherwise: so much of each element's difference does not count, but `square` has it.
 */
#ifndef DDPRUN_TOOLS_NEAR_CHANGE_H
#define DDPRUN_TOOLS_NEAR_CHANGE_H

#include "tools/near/norms.h"

struct update_change {
    struct norms norms; /* of the changes: own is the reference's, and what differs beyond rounding */
    double square;      /* of all differences */
    double rounding;    /* sum of each element's change times its unit: of a change that is off by a fraction f, about f
                           times as much is the square of what rounding makes of it where it is less than a unit */
    double unit;        /* the largest */
    double own;         /* of the changes, rounding and all: squares of what was compared with the reference's ... */
    double product;     /* ... and the inner product of the two */
};

/* For a tensor of `count` elements. */
void change_begin(struct update_change *change, size_t count);

/* The next `count` elements of a type of element.h: own[] after the update, the reference's before and after it;
 * `units` in the last place of an element are rounding. */
void change_add(struct update_change *change, int type, double units, const void *own, const void *before,
                const void *after, size_t count);

#endif

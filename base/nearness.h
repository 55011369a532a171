/*
 * nearness.h - are two ranks' own gradients of the same data, where a GPU adds up in another order each time? Pure.
 *
 * A float sum of n terms that are added in another order differs by rounding. Three quarters of such sums differ by less
 * than 0.8 u sqrt(n) of themselves, with u = 2^-24 for float32 and 2^-53 for float64 (random terms, n from 10^2 to 10^6,
 * whatever their mean; the rest nearly cancel, and differ by more). NEARNESS_UNITS u holds for 2 * 10^7 terms. Sums of n
 * other terms differ by cv / sqrt(n) of themselves and more, where cv is the deviation of the terms over their mean, so
 * with as many units only from n = 10^7 cv^2 on.
 *
 * Data of their own may yet be nearly equal (one large column, a term of the weights). So an element is near only if it
 * is, besides, much nearer to the other rank's than to what it is in other steps. Elements with equal bits tell
 * nothing: a term of the weights leaves the same on all ranks where a rank's data touch no row. Of each tensor most
 * elements that differ have to be near; one that does not say so is taken for other data, unless all of it is rounding
 * beside the others (a bias in front of a normalisation).
 */
#ifndef DDPRUN_BASE_NEARNESS_H
#define DDPRUN_BASE_NEARNESS_H

#include <stdbool.h>
#include <stddef.h>

enum { NEARNESS_UNITS = 1 << 11 };

/* How far the same sums are from each other at most, in parts of themselves; 0: nothing is known of such elements. Of
 * 16 bits, data of their own are often no further away than rounding. */
double nearness_bound(bool is_float32, bool is_float64);

/* What a sample of one tensor says: elements that differ, by as much as rounding or by more. */
struct nearness {
    size_t near, apart, count;
    double size; /* sum of magnitudes */
};

/* Adds an element of two ranks. `change`: how far it is from what the first rank has in other steps; infinite: not
 * known. */
void nearness_add(struct nearness *nearness, double mine, double theirs, double change, double bound);

/* Whether the tensors of a step are near: some element differs by rounding, and no tensor is of other data. */
bool nearness_holds(const struct nearness *tensors, size_t count);

#endif

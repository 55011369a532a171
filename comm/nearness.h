/*
 * nearness.h - are two ranks' own gradients of the same data, if a GPU adds up in another order each time? Pure.
 *
 * Three of four sums of n float32 terms differ, in another order, by less than 0.8 u sqrt(n) of themselves, u = 2^-24
 * (measured for n from 10^2 to 10^6 and terms of any mean; the rest nearly cancel). NEARNESS_UNITS u holds for 6 10^6
 * terms. Sums of n other terms differ by c / sqrt(n) or more, c: deviation over mean; they come below it from n = 6
 * 10^7 c^2 on. Of 16 bits nothing is known. docs/how-it-works.md has what follows for data that are nearly equal.
 */
#ifndef DDPRUN_COMM_NEARNESS_H
#define DDPRUN_COMM_NEARNESS_H

#include <stdbool.h>
#include <stddef.h>

enum { NEARNESS_UNITS = 1 << 11 };

/* Of a sample of one tensor: elements that differ, by as much as rounding or by more. */
struct nearness {
    size_t near, apart, count;
    double size; /* sum of magnitudes */
};

/* Adds an element of two ranks. `change`: how far the first rank's is from what it is in other steps, for it is near
 * only if it is much nearer than that; infinite: not known. */
void nearness_add(struct nearness *nearness, double mine, double theirs, double change);

/* Whether a step's tensors are near: an element differs, and in each tensor three of four that differ are near, but in
 * one that is rounding beside the others. */
bool nearness_holds(const struct nearness *tensors, size_t count);

#endif

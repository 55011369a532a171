/*
 * seeded.h - do the data of N ranks that compute what one computes depend on the clock, or on random bytes? Above
 * verdict.h, for check.c. Pure.
 *
 * All runs of a check begin with one date, and read the same random bytes: so a shuffle that is seeded by them is one
 * shuffle. In training each rank has a clock of its own. Two further runs give each rank other ones, first below those
 * of rank 0 and then above: only what differs in both depends on them, for ranks may agree on the lowest or the highest
 * seed.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_SEEDED_H
#define DDPRUN_TOOLS_CHECK_COMMAND_SEEDED_H

#include "tools/check/command/verdict.h"

/* As check_judge(), with check_evidence.apart. */
void seeded_judge(const struct check_evidence *evidence, struct check_verdict *verdict, struct check_wishes *wishes);

#endif

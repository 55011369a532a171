/*
 * factor.h - whether what an update has changed is one factor times what one rank's has: a learning rate, or gradients,
 * that are multiplied or divided once too often. Pure.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_FACTOR_H
#define DDPRUN_TOOLS_CHECK_COMMAND_FACTOR_H

#include "tools/check/command/pattern.h"

struct factor {
    double value;        /* of the first rank that differs; N and 1/N are exact */
    size_t apart, moved; /* parameters that have it, and all that move in the step */
    bool mixed;          /* another rank has another factor, and not 1 */
};

/* Of the parameters in the step of `first`, which is one of them and differs. False: they have no common factor. */
bool factor_of_update(const struct check_evidence *evidence, const struct check_item *first, struct factor *factor);

/* Of gradients, as all states that differ at the moment show them: first moments have the factor, second ones its
 * square. False: they do not. */
bool factor_of_states(const struct check_evidence *evidence, const struct check_verdict *verdict, unsigned moment,
                      double *factor_p);

/* Of a row of norms: false if it is no multiple of the reference. */
bool factor_of_row(const struct check_row *row, double *factor_p);

/* ", the number of ranks", ", its reciprocal", or nothing. */
const char *factor_meaning(const struct check_evidence *evidence, double factor);

#endif

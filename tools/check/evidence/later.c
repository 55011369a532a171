/* later.c - gradients that become so many times one process's in a later step: see evidence.h. */
#include "tools/check/evidence/evidence.h"

#include <math.h>

enum { STEPS_ALIKE = 3 /* with the factor: noise has it in no three steps, one after the other */ };

/* The part of one process's gradients that is in rank 0's averages of the step: 1 if they are equal, or equal but for
 * noise; 0: there are none, or they have another direction. */
static double
part_in_step(const struct check_evidence *evidence, uint32_t step)
{
    static const double least_cosine = 0.9;
    double product = 0, reference = 0, own = 0;
    EACH_ROW_OF(row, &evidence->ranked[0], CHECK_GRADIENT) {
        if (row->step != step)
            continue;
        product += row->norms.product;
        reference += row->norms.reference * row->norms.reference;
        own += row->norms.own * row->norms.own;
    }
    return product > least_cosine * sqrt(own * reference) ? product / reference : 0;
}

/* Whether gradients are about one process's, if this is their part of it (part_in_step()). */
static bool
is_about_one(double part)
{
    return fabs(part - 1) < 0.25;
}

/* Whether the gradients have this part of one process's in `step` and in the STEPS_ALIKE - 1 steps after it, up to a
 * tenth. */
static bool
begins_in(const struct check_evidence *evidence, uint32_t step, double factor)
{
    for (uint32_t i = step; i < step + STEPS_ALIKE; ++i) {
        if (i > evidence->steps || fabs(part_in_step(evidence, i) / factor - 1) > 0.1)
            return false;
    }
    return true;
}

uint32_t
check_evidence_later_factor(const struct check_evidence *evidence, double *factor_p)
{
    const double factors[] = {evidence->ranks, 1.0 / evidence->ranks};
    uint32_t step = 1;
    while (step <= evidence->steps && is_about_one(part_in_step(evidence, step)))
        ++step;
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]) && step > 1; ++i) {
        *factor_p = factors[i];
        if (begins_in(evidence, step, factors[i]))
            return step;
    }
    return 0;
}

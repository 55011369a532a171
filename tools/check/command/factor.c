/* factor.c - see pattern.h. */
#include "tools/check/command/pattern.h"

static const double exact = 1e-3; /* relative; rounding of small changes makes it more */

bool
factor_of_row(const struct check_row *row, double *factor_p)
{
    const struct check_norms *norms = &row->norms;
    double square = norms->reference * norms->reference;
    *factor_p = square > 0 && norms->unbounded == 0 ? norms->product / square : 0;
    /* Each element is a unit in the last place off, up or down. */
    double rest = norms->own * norms->own - *factor_p * norms->product;
    double most = exact * fmax(norms->own, norms->reference) + norms->unit * sqrt((double)row->tensor.count);
    return *factor_p != 0 && rest <= most * most;
}

const char *
factor_meaning(const struct check_evidence *evidence, double factor)
{
    double n = evidence->ranks;
    return fabs(factor * n - 1) < 0.02   ? ", the reciprocal of the number of ranks"
           : fabs(factor / n - 1) < 0.02 ? ", the number of ranks"
                                         : "";
}

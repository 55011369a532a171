/* factor.c - see pattern.h. */
#include "tools/check/command/pattern.h"

static const double exact = 1e-3; /* relative; rounding of small changes makes it more */
static const double vague = 0.15; /* from here on rounding hides a factor */

/* What is one factor times the reference, and how well that is known. */
struct multiple {
    double factor, error;
};

/* False: it is none. Each element is a unit in the last place off, up or down. */
static bool
find_multiple(const struct check_norms *norms, double count, struct multiple *multiple)
{
    double square = norms->reference * norms->reference;
    if (!(square > 0) || norms->unbounded > 0)
        return false;
    multiple->factor = norms->product / square;
    multiple->error = exact + 2 * norms->unit / norms->reference;
    double rest = norms->own * norms->own - multiple->factor * norms->product;
    double most = exact * fmax(norms->own, norms->reference) + norms->unit * sqrt(count);
    return rest <= most * most;
}

static bool
is_near(double value, double other, double error)
{
    return fabs(value - other) <= error * fmax(fabs(other), 1);
}

/* N or 1/N, if it may be that. */
static double
snap_factor(const struct check_evidence *evidence, double factor, double error)
{
    double n = evidence->ranks, whole[] = {n, 1 / n};
    for (size_t i = 0; i < 2; ++i) {
        if (fabs(factor / whole[i] - 1) <= error)
            return whole[i];
    }
    return factor;
}

/* Of one rank; `apart` 0: its parameters are equal. */
static bool
find_of_rank(const struct check_evidence *evidence, int rank, uint32_t step, struct factor *factor)
{
    struct multiple best = {.error = 1};
    *factor = (struct factor){.value = 1};
    for (int pass = 0; pass < 2; ++pass) { /* the factor is that of the parameter which shows it best */
        EACH_ROW_OF(row, &evidence->ranked[rank], CHECK_PARAMETER) {
            struct multiple own = {.factor = 1};
            if (row->step != step || !row->moved)
                continue;
            bool equal = row->same_bits || row->norms.spread <= exact * row->norms.reference;
            if (!equal && (!row->of_change || !find_multiple(&row->norms, (double)row->tensor.count, &own)))
                return false;
            if (pass == 0 && !equal && own.error < best.error)
                best = own;
            if (!equal && own.error > vague)
                continue;
            if (pass == 1 && !equal && !is_near(own.factor, best.factor, 2 * (own.error + best.error)))
                return false;
            factor->moved += pass;
            factor->apart += pass == 1 && !equal;
        }
    }
    if (factor->apart == 0)
        return true;
    factor->value = snap_factor(evidence, best.factor, 2 * best.error);
    bool snapped = factor->value != best.factor;
    return factor->value > 0 && !is_near(factor->value, 1, 4 * best.error) && (snapped || best.error < 0.02);
}

bool
factor_of_update(const struct check_evidence *evidence, const struct check_item *first, struct factor *factor)
{
    if (first->tensor.role != CHECK_PARAMETER ||
        !find_of_rank(evidence, first->first_rank, first->first_step, factor) || factor->apart == 0)
        return false;
    for (int r = 0; r < evidence->ranks; ++r) {
        struct factor other;
        if (!find_of_rank(evidence, r, first->first_step, &other))
            return false;
        factor->mixed = factor->mixed || (other.apart > 0 && fabs(other.value / factor->value - 1) > 0.02);
    }
    return true;
}

bool
factor_of_row(const struct check_row *row, double *factor_p)
{
    struct multiple own;
    bool is_multiple = find_multiple(&row->norms, (double)row->tensor.count, &own);
    *factor_p = is_multiple ? own.factor : 0;
    return is_multiple;
}

const char *
factor_meaning(const struct check_evidence *evidence, double factor)
{
    double n = evidence->ranks;
    return fabs(factor * n - 1) < 0.02   ? ", the reciprocal of the number of ranks"
           : fabs(factor / n - 1) < 0.02 ? ", the number of ranks"
                                         : "";
}

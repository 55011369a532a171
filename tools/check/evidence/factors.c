/* factors.c - see measure.h. */
#include "tools/check/evidence/measure.h"

#include "tools/common/each.h"

static const double same_direction = 0.999; /* cosine */
static const double exact = 1e-3;           /* relative; rounding of small changes makes it more */

/* ---- all gradients of the first step ---- */

/* Whether a gradient is `factor` times one process's. `loose`: the factor is one that ranks make, so the rest may be
 * anything. */
static bool
is_so_many_times(const struct check_norms *norms, double factor, bool loose)
{
    double own = norms->product / (norms->reference * norms->reference);
    double rest = norms->own * norms->own - own * norms->product; /* squared: what the factor leaves */
    if (!loose && sqrt(fmax(rest, 0)) > 0.2 * fabs(factor - 1) * norms->reference)
        return false;
    return norms->product > same_direction * norms->own * norms->reference &&
           !(fabs(own - factor) > 0.01 * fabs(factor));
}

bool
factor_of_gradients(const struct check_evidence *evidence, double *factor_p)
{
    const struct check_rows *rows = &evidence->ranked[0];
    double product = 0, square = measure_gradient_square(rows, 1), n = evidence->ranks;
    EACH_ROW_OF(row, rows, CHECK_GRADIENT)
        product += row->step == 1 ? row->norms.product : 0;
    if (!(square > 0))
        return false;
    double factor = product / square;
    bool is_n = fabs(factor * n - 1) < 0.02 || fabs(factor / n - 1) < 0.02;
    size_t count = 0;
    EACH_ROW_OF(row, rows, CHECK_GRADIENT) {
        const struct check_norms *norms = &row->norms;
        if (row->step != 1 || norms->reference * norms->reference < 1e-8 * square)
            continue;
        if (!is_so_many_times(norms, factor, is_n))
            return false;
        ++count;
    }
    *factor_p = factor;
    return count > 0 && fabs(factor - 1) > 0.01;
}

/* ---- one row ---- */

/* False: it is no multiple of the reference. */
static bool
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

/* N or 1 / N, if the item is so many times one rank's where it first differs; else 0. */
static double
rank_factor(const struct check_evidence *evidence, const struct check_item *item)
{
    const struct check_row *row = measure_row(&evidence->ranked[item->first_rank], &item->tensor, item->first_step);
    double factor, n = evidence->ranks;
    if (row == NULL || !factor_of_row(row, &factor))
        return 0;
    if (fabs(factor - n) < exact * n)
        return n;
    return fabs(factor * n - 1) < exact ? 1 / n : 0;
}

double
factor_of_some(const struct check_evidence *evidence, const struct check_item *items, size_t count, unsigned moment)
{
    double common = 0;
    FOR_EACH(item, items, count) {
        if (item->tensor.role != CHECK_GRADIENT || !item->differs || item->moment != moment)
            continue;
        double own = rank_factor(evidence, item);
        if (own == 0 || (common != 0 && own != common))
            return 0;
        common = own;
    }
    return common;
}

double
factor_of_change(const struct check_evidence *evidence, const struct check_item *item)
{
    const struct check_row *row = measure_row(&evidence->ranked[item->first_rank], &item->tensor, item->first_step);
    double factor, n = evidence->ranks;
    if (row == NULL || !row->of_change || !factor_of_row(row, &factor) || !(factor > 1e-3 && factor < 1e3))
        return 0;
    double error = exact + 2 * row->norms.unit / row->norms.reference; /* each element's last place */
    if (error > 0.15 || fabs(factor - 1) < 4 * error)
        return 0;
    if (fabs(factor / n - 1) < error)
        return n;
    if (fabs(factor * n - 1) < error)
        return 1 / n;
    return error < 0.02 ? factor : 0;
}

/* ---- a factor that the update undoes ---- */

/* A gradient that is small beside what it was: the difference is held against that. */
static double
largest_so_far(const struct check_rows *rows, const struct check_row *row)
{
    double most = 0;
    EACH_ROW_OF(it, rows, CHECK_GRADIENT)
        if (it->tensor.number == row->tensor.number && it->step <= row->step)
            most = fmax(most, it->norms.reference);
    return most;
}

/* Whether the gradient of the row is `factor` times the reference's, or noise. */
static bool
is_explained(const struct check_evidence *evidence, const struct check_rows *rows, const struct check_row *row,
             double factor)
{
    double apart = norms_apart(&row->norms, factor), reference = row->norms.reference,
           bearable = evidence->bearable * factor;
    bool is_noise = reference * reference < 1e-8 * measure_gradient_square(rows, row->step);
    if (apart <= bearable * reference || is_noise)
        return true;
    return apart <= bearable * largest_so_far(rows, row);
}

/* Whether the rank's gradients were set to `factor` times the reference's, or to it. */
static bool
is_forced_to(const struct check_rows *rows, double factor)
{
    EACH_ROW(row, rows, CHECK_ROW_FORCED)
        if (row->norms.product != factor && row->norms.product != 1)
            return false;
    return true;
}

/* Whether one process with such gradients makes the same difference. */
static bool
is_made_by_factor(const struct check_evidence *evidence, const struct check_item *item)
{
    const struct check_row *row = measure_row(&evidence->ranked[item->worst_rank], &item->tensor, item->worst_step),
                           *scaled = measure_row(&evidence->scaled, &item->tensor, item->worst_step);
    return row != NULL && scaled != NULL &&
           fabs(row->norms.difference - scaled->norms.difference) <= 0.1 * row->norms.difference;
}

/* The moment in which a parameter first differs; UINT_MAX: none does. */
static unsigned
first_of_parameters(const struct check_item *items, size_t count)
{
    unsigned first = UINT_MAX;
    FOR_EACH(item, items, count) {
        bool is_earlier = item->tensor.role == CHECK_PARAMETER && item->differs && item->moment < first;
        first = is_earlier ? item->moment : first;
    }
    return first;
}

/* Whether the parameter is equal until another differs, and would differ with such gradients in one process. */
static bool
shows_factor(const struct check_evidence *evidence, const struct check_item *item, unsigned first)
{
    if (item->tensor.role != CHECK_PARAMETER || !item->moved || (item->differs && item->moment <= first))
        return false;
    return items_scaled_differs(evidence, item);
}

/* Whether the update takes a factor of the gradients, *factor_p, back. An optimizer that knows no factors leaves
 * parameters equal, too, and hides a wrong divisor: so of the parameters that are equal, one must have been seen to
 * differ with such gradients. */
static bool
is_undone(const struct check_evidence *evidence, const struct check_item *items, size_t count,
          const struct pattern *pattern, double *factor_p)
{
    double factor;
    if (evidence->scaled.count == 0 || pattern->moment != items_moment(CHECK_GRADIENT, 1))
        return false;
    if (!factor_of_gradients(evidence, &factor))
        return false;
    const struct check_row *forced = check_rows_find(&evidence->ranked[0], CHECK_ROW_FORCED);
    if (forced == NULL)
        return false;
    *factor_p = forced->norms.product;
    if (!ALL(rows, evidence->ranked, evidence->ranks, is_forced_to(rows, *factor_p)))
        return false;
    const unsigned first = first_of_parameters(items, count);
    return ANY(item, items, count, shows_factor(evidence, item, first));
}

/* Where the gradient first differs by more than the factor; false: nowhere. */
static bool
settle_gradient(const struct check_evidence *evidence, struct check_item *item, double factor)
{
    const struct check_row *first = NULL;
    for (int r = 0; r < evidence->ranks; ++r) {
        EACH_ROW_OF(row, &evidence->ranked[r], CHECK_GRADIENT) {
            if (!check_same_tensor(&row->tensor, &item->tensor) ||
                is_explained(evidence, &evidence->ranked[r], row, factor))
                continue;
            if (first != NULL && first->step <= row->step)
                continue;
            first = row;
            item->first_rank = r;
        }
    }
    if (first == NULL)
        return false;
    item->first_step = item->made_in_step = first->step;
    item->moment = items_moment_of(first);
    item->rank_count = 1;
    item->at_first = norms_apart(&first->norms, factor) / (factor * first->norms.reference);
    item->limit = evidence->bearable;
    item->block_count = 0;
    return true;
}

double
factor_settle(const struct check_evidence *evidence, struct check_item *items, size_t count, struct pattern *pattern)
{
    double factor;
    if (!is_undone(evidence, items, count, pattern, &factor))
        return 0;
    FOR_EACH_MUTABLE(item, items, count) {
        uint32_t role = item->tensor.role;
        bool is_memory = role == CHECK_MEMORY || role == CHECK_STATE;
        if (!item->differs || (role != CHECK_GRADIENT && !is_memory))
            continue;
        bool is_left = is_memory ? !is_made_by_factor(evidence, item) : settle_gradient(evidence, item, factor);
        if (is_left)
            continue;
        item->differs = item->unclear = false;
        item->compensated = true;
    }
    items_sort(items, count);
    *pattern = pattern_find(evidence, items, count);
    return factor;
}

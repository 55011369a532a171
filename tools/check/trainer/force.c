/*
 * force.c - every step of a run of `ddprun check` begins from the reference: what the ranks' gradients become
 * (check.h).
 *
 * Gradients of N ranks are the reference's up to rounding, or all of them so many times as large: sums where one rank
 * has means, or means of the whole batch. They are then set to that multiple of the reference's bytes, and the update
 * has to undo the factor. Where they are something else they are set to the reference's bytes, too: that they differ is
 * known, and the next step is to be compared like the first. Called by course.c, after DDP_STEP.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/owned.h"

static const double same_direction = 0.999; /* cosine */
static const double same_factor = 0.01;     /* relative */

static double
square(double value)
{
    return value * value;
}

/* What the ranks' gradients are times the reference's; `before`, 0 in the first step, where they are no multiple: they
 * may be noise. What is made one in a later step, as by clipping, is no factor that an update undoes. */
static double
find_factor(const struct check_row *rows, size_t count, double before)
{
    double product = 0, reference = 0;
    for (size_t i = 0; i < count; ++i) {
        product += rows[i].norms.product;
        reference += square(rows[i].norms.reference);
    }
    double factor = reference > 0 ? product / reference : before;
    for (size_t i = 0; i < count; ++i) {
        const struct check_norms *norms = &rows[i].norms;
        if (square(norms->reference) < 1e-8 * reference) /* rounding noise */
            continue;
        double own = norms->product / square(norms->reference);
        if (!(norms->product > same_direction * norms->own * norms->reference) ||
            !(fabs(own - factor) <= same_factor * factor))
            return before;
    }
    double ranks = (double)engine_state.rendezvous.world_size;
    const double whole[] = {1, ranks, 1 / ranks};
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); ++i) {
        if (fabs(factor - whole[i]) <= same_factor * whole[i])
            return whole[i];
    }
    return before == 0 || fabs(factor - before) <= same_factor * before ? factor : 1;
}

void
force_gradients(const struct tensor *list, size_t count, int group, const struct compare_at *at)
{
    OWNED struct check_row *rows = values_room(NULL, count * sizeof(*rows));
    for (size_t i = 0; i < count; ++i)
        compare_tensor(&list[i], at, &rows[i]);
    static double before[GROUPS_AT_MOST];
    double factor = check_run.factor > 0 ? check_run.factor : find_factor(rows, count, before[group]);
    before[group] = factor = factor > 0 ? factor : 1;
    for (size_t i = 0; i < count && check_run.forced && values_reader() != NULL; ++i) {
        if (!rows[i].same_bits || factor != 1)
            compare_set(&list[i], &rows[i].tensor, at->step, factor);
    }
    if (check_run.forced && values_reader() != NULL)
        values_row(&(struct check_row){.kind = CHECK_ROW_FORCED,
                                       .step = at->step,
                                       .during = at->during,
                                       .tensor.group = (uint32_t)group,
                                       .norms.product = factor});
}

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

/* Whether each gradient is `factor` times the reference's. `reference`: sum of the squares of the reference's norms, of
 * which a gradient that is rounding noise has next to nothing. */
static bool
are_multiples(const struct check_row *rows, size_t count, double reference, double factor)
{
    for (size_t i = 0; i < count; ++i) {
        const struct check_norms *norms = &rows[i].norms;
        if (square(norms->reference) < 1e-8 * reference) /* rounding noise */
            continue;
        double own = norms->product / square(norms->reference);
        bool same_way = norms->product > same_direction * norms->own * norms->reference;
        bool same_size = fabs(own - factor) <= same_factor * factor;
        if (!same_way || !same_size)
            return false;
    }
    return true;
}

/* Sums over gradients: of products with the reference, and of squares. */
struct sums {
    double product, reference, own;
};

static struct sums
sum_up(const struct check_row *rows, size_t count)
{
    struct sums sums = {0};
    for (size_t i = 0; i < count; ++i) {
        sums.product += rows[i].norms.product;
        sums.reference += square(rows[i].norms.reference);
        sums.own += square(rows[i].norms.own);
    }
    return sums;
}

/* The factor changes gradients far more than what else is in them, such as noise, which has a part in the reference's
 * direction, too. */
static bool
is_beyond_noise(const struct sums *sums, double factor)
{
    enum { FAR_BEYOND = 4 };
    double of_factor = square(factor - 1) * sums->reference,
           of_noise = sums->own - square(sums->product) / sums->reference;
    return of_factor > square(FAR_BEYOND) * of_noise;
}

/* What the ranks' gradients are times the reference's; `before`, 0 in the first step, where they are no multiple: they
 * may be noise. What is made one in a later step, as by clipping, is no factor that an update undoes. */
static double
find_factor(const struct check_row *rows, size_t count, double before)
{
    const struct sums sums = sum_up(rows, count);
    double factor = sums.reference > 0 ? sums.product / sums.reference : before;
    if (!are_multiples(rows, count, sums.reference, factor))
        return before;
    double ranks = (double)engine_state.rendezvous.world_size;
    const double whole[] = {1, ranks, 1 / ranks};
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); ++i) {
        if (fabs(factor - whole[i]) <= same_factor * whole[i])
            return whole[i];
    }
    if (before == 0)
        return is_beyond_noise(&sums, factor) ? factor : 1;
    bool stays = fabs(factor - before) <= same_factor * before;
    return stays ? factor : 1;
}

/* To `factor` times the reference's, where they are not that already. */
static void
set_gradients(const struct tensor *list, const struct check_row *rows, size_t count, uint32_t step, double factor)
{
    for (size_t i = 0; i < count; ++i) {
        if (!rows[i].same_bits || factor != 1)
            compare_set(&list[i], &rows[i].tensor, step, factor);
    }
}

void
force_gradients(const struct tensor *list, size_t count, int group, const struct compare_at *at)
{
    static double before[GROUPS_AT_MOST];
    OWNED struct check_row *rows = values_room(NULL, count * sizeof(*rows));
    for (size_t i = 0; i < count; ++i)
        compare_tensor(&list[i], at, &rows[i]);
    double factor = check_run.factor > 0 ? check_run.factor : find_factor(rows, count, before[group]);
    if (!(factor > 0))
        factor = 1;
    before[group] = factor;
    if (!check_run.forced || values_reader() == NULL)
        return;
    set_gradients(list, rows, count, at->step, factor);
    values_row(&(struct check_row){.kind = CHECK_ROW_FORCED,
                                   .step = at->step,
                                   .during = at->during,
                                   .tensor.group = (uint32_t)group,
                                   .norms.product = factor});
}

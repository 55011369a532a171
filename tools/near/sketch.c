/* sketch.c - see sketch.h. */
#include "tools/near/sketch.h"

#include "tools/near/element.h"

void
sketch_add(struct sketch *sketch, int type, const void *data, size_t count)
{
    uint64_t block = (sketch->count + SKETCH_COUNTERS - 1) / SKETCH_COUNTERS;
    for (size_t i = 0; i < count; ++i, ++sketch->added) {
        double value = element_get(type, data, i);
        /* Other bits than those by which element_perturb() goes up or down; no branch, which none could foresee. */
        double sign = 1 - 2 * (double)(element_scramble(sketch->added) >> 32 & 1);
        if (isfinite(value))
            sketch->counters[sketch->added / block] += sign * value;
        else
            ++sketch->unbounded;
    }
}

struct check_norms
sketch_compare(const struct sketch *own, const struct sketch *reference)
{
    static const struct sketch none;
    return sketch_compare_changes(&none, own, &none, reference);
}

struct check_norms
sketch_compare_changes(const struct sketch *own_before, const struct sketch *own, const struct sketch *before,
                       const struct sketch *reference)
{
    struct check_norms sums = {.product = 0};
    for (size_t i = 0; i < SKETCH_COUNTERS; ++i) {
        double change = reference->counters[i] - before->counters[i], mine = own->counters[i] - own_before->counters[i];
        sums.difference += (mine - change) * (mine - change);
        sums.reference += change * change;
        sums.own += mine * mine;
        sums.product += mine * change;
    }
    sums.difference = sqrt(sums.difference);
    sums.reference = sqrt(sums.reference);
    sums.own = sqrt(sums.own);
    return sums;
}

double
sketch_retained(const struct sketch *own, const struct sketch *reference, const struct sketch *change)
{
    double product = 0, norm = 0;
    for (size_t i = 0; i < SKETCH_COUNTERS; ++i) {
        product += (own->counters[i] - reference->counters[i]) * change->counters[i];
        norm += change->counters[i] * change->counters[i];
    }
    return product / norm;
}

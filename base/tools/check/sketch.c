/*
 * sketch.c - see sketch.h.
 */
#include "base/tools/check/sketch.h"

#include "base/tools/check/element.h"

#include <math.h>
#include <stdbool.h>

void
sketch_begin(struct sketch *sketch, uint64_t count)
{
    *sketch = (struct sketch){.count = count};
}

void
sketch_add(struct sketch *sketch, int type, const void *data, size_t count)
{
    uint64_t block = (sketch->count + SKETCH_COUNTERS - 1) / SKETCH_COUNTERS;
    for (size_t i = 0; i < count; ++i, ++sketch->at) {
        double value = element_get(type, data, i);
        if (!isfinite(value)) {
            ++sketch->unbounded;
            continue;
        }
        /* Other bits than those by which element_perturb() goes up or down. */
        bool negative = (element_scramble(sketch->at) >> 32 & 1) != 0;
        sketch->counters[sketch->at / block] += negative ? -value : value;
    }
}

struct sketch_distance
sketch_compare(const struct sketch *own, const struct sketch *reference)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < SKETCH_COUNTERS; ++i) {
        double apart = own->counters[i] - reference->counters[i];
        difference += apart * apart;
        norm += reference->counters[i] * reference->counters[i];
    }
    return (struct sketch_distance){sqrt(difference), sqrt(norm)};
}

struct sketch_distance
sketch_compare_changes(const struct sketch *own_before, const struct sketch *own, const struct sketch *before,
                       const struct sketch *reference)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < SKETCH_COUNTERS; ++i) {
        double change = reference->counters[i] - before->counters[i];
        double apart = own->counters[i] - own_before->counters[i] - change;
        difference += apart * apart;
        norm += change * change;
    }
    return (struct sketch_distance){sqrt(difference), sqrt(norm)};
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

/* near.c - see near.h. */
#include "tools/near/near.h"

enum { UNITS = 8 }; /* in the last place: rounding of single elements */

double
near_tolerance(int type)
{
    switch (type) {
    case ELEMENT_BFLOAT16:
        return 0x1p-5;
    case ELEMENT_FLOAT16:
        return 0x1p-8;
    default:
        return 1e-5;
    }
}

/* What an element of the other run has moved by in the step. */
static double
change_of(int type, const char *other, const char *before, size_t k)
{
    const double value = element_get(type, other, k);
    return before != NULL ? value - element_get(type, before, k) : value;
}

struct near_apart
near_find_apart(int type, uint64_t bytes, const char *now, const char *other, const char *before)
{
    const size_t size = element_size(type), count = bytes / size;
    double sum = 0, moved = 0, largest = 0, worst = 0;
    for (size_t k = 0; k < count; ++k) {
        const double value = element_get(type, other, k), change = change_of(type, other, before, k);
        moved += isfinite(change) ? fabs(change) : 0;
        largest = isfinite(value) ? fmax(largest, fabs(value)) : largest;
    }
    for (size_t k = 0; k < count; ++k) {
        if (memcmp(now + k * size, other + k * size, size) == 0)
            continue;
        const double value = element_get(type, other, k), change = change_of(type, other, before, k);
        double apart = fabs(element_get(type, now, k) - value);
        apart = isfinite(apart) ? apart : INFINITY;
        const double rest = apart - UNITS * element_unit(type, isfinite(value) ? value : 0);
        sum += apart;
        if (rest > 0)
            worst = fmax(worst, rest / (fabs(change) + moved / (double)count));
    }
    sum -= UNITS * element_unit(type, largest);
    return (struct near_apart){.sum = sum > 0 ? sum / moved : 0, .element = worst};
}

struct near_apart
near_larger(struct near_apart one, struct near_apart other)
{
    return (struct near_apart){fmax(one.sum, other.sum), fmax(one.element, other.element)};
}

/* What rounding makes where two runs agree by chance; and what noise may be at most. */
static const struct near_apart least = {.sum = 1e-5, .element = 1e-3};
static const struct near_apart most = {.sum = NEAR_NOISE_AT_MOST, .element = 5e-2};

bool
near_is_noise(struct near_apart apart, struct near_apart floor)
{
    return apart.sum <= fmax(NEAR_NOISE_FACTOR * floor.sum, least.sum) &&
           apart.element <= fmax(NEAR_NOISE_FACTOR * floor.element, least.element);
}

bool
near_shows_mistakes(struct near_apart floor)
{
    return NEAR_NOISE_FACTOR * floor.sum <= most.sum && NEAR_NOISE_FACTOR * floor.element <= most.element;
}

/* element.c - see element.h. */
#include "tools/near/element.h"

#include <math.h>

#include <stdbool.h>

static const struct layout {
    unsigned bytes, fraction_bits;
    uint64_t magnitude; /* mask of all bits but the sign */
    int least_exponent;
} layouts[] = {
    [ELEMENT_FLOAT32] = {4, 23, 0x7fffffff, -126},
    [ELEMENT_FLOAT64] = {8, 52, INT64_MAX, -1022},
    [ELEMENT_FLOAT16] = {2, 10, 0x7fff, -14},
    [ELEMENT_BFLOAT16] = {2, 7, 0x7fff, -126},
};

static uint64_t
moved(uint64_t bits, const struct layout *layout, uint64_t units, bool up)
{
    uint64_t magnitude = bits & layout->magnitude;
    uint64_t infinity = layout->magnitude >> layout->fraction_bits << layout->fraction_bits;
    if (magnitude == 0 || magnitude >= infinity)
        return bits;
    if (up)
        magnitude = magnitude + units < infinity ? magnitude + units : magnitude;
    else
        magnitude = magnitude > units ? magnitude - units : magnitude;
    return (bits & ~layout->magnitude) | magnitude;
}

void
element_perturb(int type, void *data, size_t count, size_t first, unsigned units)
{
    if (type > ELEMENT_BFLOAT16) /* an integer */
        return;
    const struct layout *layout = &layouts[type];
    for (size_t i = 0; i < count; ++i) {
        uint64_t bits = 0; /* little-endian, as every machine with CUDA is */
        memcpy(&bits, (char *)data + i * layout->bytes, layout->bytes);
        bits = moved(bits, layout, units, (element_scramble(first + i) & 1) != 0);
        memcpy((char *)data + i * layout->bytes, &bits, layout->bytes);
    }
}

double
element_unit(int type, double value)
{
    int exponent;
    if (type > ELEMENT_BFLOAT16)
        return 0;
    (void)frexp(value, &exponent); /* of a fraction in [0.5, 1) */
    int least = layouts[type].least_exponent, of = value == 0 || exponent - 1 < least ? least : exponent - 1;
    return ldexp(1, of - (int)layouts[type].fraction_bits);
}

/* Of the values of a type with 16 bits, the nearest. */
static uint16_t
narrow(int type, double value)
{
    unsigned fraction_bits = layouts[type].fraction_bits;
    uint16_t sign = signbit(value) ? 0x8000 : 0, infinity = type == ELEMENT_FLOAT16 ? 0x7c00 : 0x7f80;
    if (isnan(value))
        return (uint16_t)(sign | infinity | 1u << (fraction_bits - 1));
    double unit = element_unit(type, value), magnitude = rint(fabs(value) / unit); /* units: exact, ties to even */
    double least = element_unit(type, 0);
    /* Magnitudes of IEEE numbers are ordered as their bits: each doubling of the unit is 2^fraction_bits of them. */
    if (!isfinite(magnitude))
        return (uint16_t)(sign | infinity);
    uint32_t bits = (uint32_t)magnitude + ((uint32_t)ilogb(unit / least) << fraction_bits);
    return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

void
element_put(int type, void *data, size_t index, double value)
{
    char *at = (char *)data + index * element_bytes(type);
    if (type == ELEMENT_FLOAT32) {
        float single = (float)value;
        memcpy(at, &single, sizeof(single));
    } else if (type == ELEMENT_FLOAT64) {
        memcpy(at, &value, sizeof(value));
    } else if (type > ELEMENT_BFLOAT16) { /* little-endian: the lower half is the narrower number */
        int64_t integer = type == ELEMENT_UINT64 ? (int64_t)(uint64_t)rint(value) : llrint(value);
        memcpy(at, &integer, element_bytes(type));
    } else {
        uint16_t bits = narrow(type, value);
        memcpy(at, &bits, sizeof(bits));
    }
}

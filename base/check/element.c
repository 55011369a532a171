/*
 * element.c - see element.h.
 */
#include "base/check/element.h"

#include <stdbool.h>

struct layout {
    unsigned bytes, fraction_bits;
    uint64_t magnitude; /* mask of all bits but the sign */
};

static struct layout
layout_of(int type)
{
    static const struct layout layouts[] = {
        [ELEMENT_FLOAT32] = {4, 23, 0x7fffffff},
        [ELEMENT_FLOAT64] = {8, 52, INT64_MAX},
        [ELEMENT_FLOAT16] = {2, 10, 0x7fff},
        [ELEMENT_BFLOAT16] = {2, 7, 0x7fff},
    };
    return layouts[type];
}

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
    struct layout layout = layout_of(type);
    for (size_t i = 0; i < count; ++i) {
        uint64_t bits = 0; /* little-endian, as every machine with CUDA is */
        memcpy(&bits, (char *)data + i * layout.bytes, layout.bytes);
        bits = moved(bits, &layout, units, (element_scramble(first + i) & 1) != 0);
        memcpy((char *)data + i * layout.bytes, &bits, layout.bytes);
    }
}

/*
 * element.h - one element of a tensor as a double, whatever its type; and the smallest step away from it.
 *
 * The numbers of the types are those of enum ddp_type (interpose/include/ddprun.h), which the engine asserts.
 */
#ifndef DDPRUN_TOOLS_NEAR_ELEMENT_H
#define DDPRUN_TOOLS_NEAR_ELEMENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The types: as in ELEMENT_FLOAT32, number, name, the C type with its bits, and what makes a double of
 * that. */
#define ELEMENT_TYPES(X)                                      \
    X(FLOAT32, 1, "float32", float, (double))                 \
    X(FLOAT64, 2, "float64", double, (double))                \
    X(FLOAT16, 3, "float16", uint16_t, element_from_half)     \
    X(BFLOAT16, 4, "bfloat16", uint16_t, element_from_bfloat) \
    X(INT32, 5, "int32", int32_t, (double))                   \
    X(INT64, 6, "int64", int64_t, (double))                   \
    X(UINT8, 7, "uint8", uint8_t, (double))                   \
    X(UINT32, 8, "uint32", uint32_t, (double))                \
    X(UINT64, 9, "uint64", uint64_t, (double))

#define ELEMENT_NUMBER(type, number, name, c, wide) ELEMENT_##type = number,
#define ELEMENT_BYTES(type, number, name, c, wide)  [number] = sizeof(c),
#define ELEMENT_NAME(type, number, name, c, wide)   [number] = name,
enum element_type { ELEMENT_TYPES(ELEMENT_NUMBER) };

/* 0: unknown type. */
static inline size_t
element_bytes(int type)
{
    static const unsigned char bytes[] = {ELEMENT_TYPES(ELEMENT_BYTES)};
    return type > 0 && (size_t)type < sizeof(bytes) ? bytes[type] : 0;
}

/* "float32", "uint8"; of an unknown type "?". */
static inline const char *
element_name(int type)
{
    static const char *const names[] = {"?", ELEMENT_TYPES(ELEMENT_NAME)};
    return names[type > 0 && (size_t)type < sizeof(names) / sizeof(names[0]) ? type : 0];
}

/* Of a type that is known to be one of them. */
static inline size_t
element_size(int type)
{
    size_t bytes = element_bytes(type);
    return bytes > 0 ? bytes : 1;
}

static inline float
element_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t
element_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* IEEE 754 binary16. */
static inline double
element_from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent == 0) { /* zero and subnormal numbers: multiples of 2^-24 */
        double magnitude = fraction * 0x1p-24;
        return sign != 0 ? -magnitude : magnitude;
    }
    uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
    return (double)element_from_bits(sign | wide << 23 | fraction << 13);
}

static inline double
element_from_bfloat(uint16_t bits)
{
    return (double)element_from_bits((uint32_t)bits << 16);
}

/* Element number `index` of data[], which may have any alignment. */
static inline double
element_get(int type, const void *data, size_t index)
{
    const char *at = (const char *)data + index * element_bytes(type);
    switch (type) {
#define ELEMENT_READ(type, number, name, c, wide) \
    case number: {                                \
        c value;                                  \
        memcpy(&value, at, sizeof(value));        \
        return wide(value);                       \
    }
        ELEMENT_TYPES(ELEMENT_READ)
    }
    uint16_t bits; /* of an unknown type */
    memcpy(&bits, at, sizeof(bits));
    return element_from_half(bits);
}

/* 64 bits that look random (splitmix64; Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static inline uint64_t
element_scramble(uint64_t number)
{
    number += UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return number ^ number >> 31;
}

/* The distance from a finite value to the next larger magnitude of the type; 0 of integers. */
double element_unit(int type, double value);

/* Element number `index` of data[] becomes the value, rounded to nearest, ties to even. Of the integers only those of
 * 32 and 64 bits; the value must be in their range. */
void element_put(int type, void *data, size_t index, double value);

/*
 * Moves data[0..count) by `units` units in the last place, up or down as the scrambled number of each element says;
 * `first` is the number of data[0]. Zeros, infinities, NaNs and integers stay. Magnitudes of IEEE numbers are ordered
 * as their bits are, so a unit is 1 in the bits.
 */
void element_perturb(int type, void *data, size_t count, size_t first, unsigned units);

#endif

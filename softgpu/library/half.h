/*
 * half.h - IEEE binary16 and bfloat16 as 16-bit patterns, converted by integer arithmetic that does not depend on the
 * thread's denormal flags and that compilers turn into vector code.
 *
 * Rounding is to nearest, ties to even; a NaN becomes 0x7fff, and 0x7fffffff from binary16, as CUDA's conversions give.
 * Pure functions, for the reductions of NCCL, the matrix products of cuBLAS and convert.c.
 */
#ifndef SOFTGPU_LIBRARY_HALF_H
#define SOFTGPU_LIBRARY_HALF_H

#include <stdint.h>
#include <string.h>

static inline float
float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t
bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float
float_from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    uint32_t subnormal = bits_of_float((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t bits = magnitude >= 0x7c00u ? 0x7f800000u : magnitude >= 0x0400u ? normal : subnormal;
    return float_of_bits(magnitude > 0x7c00u ? 0x7fffffffu : sign | bits);
}

static inline uint16_t
half_from_float(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    /* One unit in the last place of 0.5f is 2^-24, the step of binary16's subnormals: the addition rounds for us. */
    uint32_t small = magnitude < 0x38800000u ? magnitude : 0;
    uint32_t subnormal = bits_of_float(float_of_bits(small) + 0.5f) - 0x3f000000u;
    uint32_t half = magnitude > 0x7f800000u    ? 0x7fffu
                    : magnitude >= 0x477ff000u ? 0x7c00u
                    : magnitude >= 0x38800000u ? normal
                                               : subnormal;
    return (uint16_t)(magnitude > 0x7f800000u ? half : sign | half);
}

static inline float
float_from_bfloat(uint16_t bfloat)
{
    return float_of_bits((uint32_t)bfloat << 16);
}

static inline uint16_t
bfloat_from_float(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

#endif

/*
 * convert.h - arrays of float32 to 16-bit floats and back, by the widest instructions that the processor has.
 *
 * The bits are those of CUDA's conversions (__float2half_rn and its relatives) on every processor: round to nearest,
 * ties to even; a NaN becomes 0x7fff, a NaN in binary16 becomes 0x7fffffff. Exported by libsoftgpu.so for kernels that
 * convert whole arrays, and part of the stand-in's NCCL. C and C++; pure functions, for any thread.
 */
#ifndef SOFTGPU_CONVERT_H
#define SOFTGPU_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* to[i] = from[i] * scale, rounded to float32 and then to 16 bits. The arrays do not overlap; any alignment of their
 * elements. */
void softgpu_floats_to_halves(uint16_t *to, const float *from, size_t count, float scale);
void softgpu_floats_to_bfloats(uint16_t *to, const float *from, size_t count, float scale);

/* to[i] = from[i] * scale in float32. The arrays do not overlap. */
void softgpu_halves_to_floats(float *to, const uint16_t *from, size_t count, float scale);
void softgpu_bfloats_to_floats(float *to, const uint16_t *from, size_t count, float scale);

#ifdef __cplusplus
}
#endif
#endif

/*
 * reduce.h - the arithmetic of NCCL's reductions, on plain memory.
 *
 * The sum (product, ...) of one element over the ranks is formed in the order of the ranks, in the type itself or, for
 * float16 and bfloat16, in float32 rounded once at the end. So a result depends neither on who computes it nor on how
 * the data are cut into pieces. Called by collective.c on a stream's thread. Pure functions, no state.
 */
#ifndef SOFTGPU_NCCL_REDUCE_H
#define SOFTGPU_NCCL_REDUCE_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDUCE_MAX_RANKS 128

/* Bytes of one element; 0 for a type that the stand-in refuses (the 8-bit floats) or that does not exist. */
size_t type_bytes(ncclDataType_t type);

/* "float32"; "a type that NCCL does not have" for an invalid type. */
const char *type_name(ncclDataType_t type);

const char *reduction_name(ncclRedOp_t op);

/*
 * destination[i] = op over sources[0..rank_count)[i]. `op` is one of the five of NCCL. ncclAvg of the floating types is
 * the sum of the elements times 1/rank_count, a factor that is rounded to the type (ncclDevPreMulSum in NCCL's
 * src/enqueue.cc); of the integers the sum, divided, towards zero. What is added in 16 bits is rounded after each rank.
 * Integers wrap around, as on a GPU. Of NaN and a number, min and max give the number. `destination` may be one of the
 * sources.
 */
void reduce_elements(void *destination, const void *const *sources, int rank_count, size_t count, ncclDataType_t type,
                     ncclRedOp_t op);

/* destination[i] = source[i] * scalar, rounded to the type; `scalar` points to one element of it. May be in place. */
void scale_elements(void *destination, const void *source, size_t count, ncclDataType_t type, const void *scalar);

#endif

/*
 * types.h - sizes of the element types of CUDA's libraries.
 */
#ifndef DDPRUN_INTERPOSE_SHIM_LIBRARIES_TYPES_H
#define DDPRUN_INTERPOSE_SHIM_LIBRARIES_TYPES_H

#include <cublas_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits of one element; 0 for a type that we do not know. Source: library_types.h. */
unsigned type_bits(cudaDataType type);

/* Bytes of one element. Of a type that we do not know, and of those under a byte: 16, more than any has; so that no
 * byte is missed. */
size_t type_bytes(cudaDataType type);

/* enum ddp_type of a kind of float that tensors have; 0: it is another type. */
uint32_t type_of_floats(cudaDataType type);

/* Bytes of alpha and beta of a product in this compute type, with results of this type. Source: the table of supported
 * types of cublasGemmEx in the cuBLAS documentation. */
size_t scalar_of(cublasComputeType_t compute, cudaDataType result);

#endif

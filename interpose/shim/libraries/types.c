/*
 * types.c - sizes of the element types of CUDA's libraries, and which narrow ones calls have named. Called by the hooks
 * of libraries; knows no library.
 */
#include "interpose/shim/libraries/library.h"

static void
note(uint32_t type)
{
    if ((__atomic_load_n(&shim_library_types, __ATOMIC_RELAXED) & type) != type)
        __atomic_fetch_or(&shim_library_types, type, __ATOMIC_RELAXED);
}

/* Newer than the headers of CUDA 12.4. */
enum { R_8F_UE8M0 = 30, R_6F_E2M3, R_6F_E3M2, R_4F_E2M1, COMPUTE_64F_EMULATED = 79 };

/* By type. An unknown one has 0 bits. */
static const struct {
    uint8_t bits;
    bool is_complex; /* of those that products have */
    uint8_t narrow;  /* enum library_type; 0: it is none of them */
} types[] = {[CUDA_C_64F] = {128, true},
             [CUDA_C_64I] = {128},
             [CUDA_C_64U] = {128},
             [CUDA_R_64F] = {64},
             [CUDA_R_64I] = {64},
             [CUDA_R_64U] = {64},
             [CUDA_C_32F] = {64, true},
             [CUDA_C_32I] = {64},
             [CUDA_C_32U] = {64},
             [CUDA_R_32F] = {32},
             [CUDA_R_32I] = {32},
             [CUDA_R_32U] = {32},
             [CUDA_C_16F] = {32, true, LIBRARY_FLOAT16},
             [CUDA_C_16BF] = {32, true, LIBRARY_BFLOAT16},
             [CUDA_C_16I] = {32},
             [CUDA_C_16U] = {32},
             [CUDA_R_16F] = {16, false, LIBRARY_FLOAT16},
             [CUDA_R_16BF] = {16, false, LIBRARY_BFLOAT16},
             [CUDA_R_16I] = {16},
             [CUDA_R_16U] = {16},
             [CUDA_C_8I] = {16, true},
             [CUDA_C_8U] = {16, true},
             [CUDA_R_8I] = {8},
             [CUDA_R_8U] = {8},
             [CUDA_R_8F_E4M3] = {8, false, LIBRARY_BFLOAT16},
             [CUDA_R_8F_E5M2] = {8, false, LIBRARY_BFLOAT16},
             [R_8F_UE8M0] = {8},
             [CUDA_C_4I] = {8},
             [CUDA_C_4U] = {8},
             [R_6F_E2M3] = {6, false, LIBRARY_BFLOAT16},
             [R_6F_E3M2] = {6, false, LIBRARY_BFLOAT16},
             [CUDA_R_4I] = {4},
             [CUDA_R_4U] = {4},
             [R_4F_E2M1] = {4, false, LIBRARY_BFLOAT16}};

/* By type of computation; others compute in float, or int for products of integers, of which a scalar is. */
static const struct {
    uint8_t scalar_bytes, narrow;
} computes[] = {[CUBLAS_COMPUTE_16F] = {2, LIBRARY_FLOAT16},
                [CUBLAS_COMPUTE_16F_PEDANTIC] = {2, LIBRARY_FLOAT16},
                [CUBLAS_COMPUTE_32F_FAST_16F] = {4, LIBRARY_FLOAT16},
                [CUBLAS_COMPUTE_32F_FAST_TF32] = {4, LIBRARY_FLOAT16}, /* which has the fraction of a float16 */
                [CUBLAS_COMPUTE_32F_FAST_16BF] = {4, LIBRARY_BFLOAT16},
                [CUBLAS_COMPUTE_64F] = {8},
                [CUBLAS_COMPUTE_64F_PEDANTIC] = {8},
                [COMPUTE_64F_EMULATED] = {8}};

unsigned
type_bits(cudaDataType type)
{
    if ((size_t)type >= sizeof(types) / sizeof(types[0]))
        return 0;
    note(types[type].narrow);
    return types[type].bits;
}

size_t
cuda_type_bytes(cudaDataType type)
{
    unsigned bits = type_bits(type);
    return bits >= 8 && bits % 8 == 0 ? bits / 8 : 16;
}

uint32_t
type_of_floats(cudaDataType type)
{
    switch (type) {
    case CUDA_R_32F:
        return DDP_FLOAT32;
    case CUDA_R_64F:
        return DDP_FLOAT64;
    case CUDA_R_16F:
        return DDP_FLOAT16;
    case CUDA_R_16BF:
        return DDP_BFLOAT16;
    default:
        return 0;
    }
}

size_t
scalar_of(cublasComputeType_t compute, cudaDataType result)
{
    size_t bytes = (size_t)compute < sizeof(computes) / sizeof(computes[0]) ? computes[compute].scalar_bytes : 0;
    if (bytes > 0)
        note(computes[compute].narrow);
    bool is_complex = (size_t)result < sizeof(types) / sizeof(types[0]) && types[result].is_complex;
    return (bytes > 0 ? bytes : sizeof(float)) * (is_complex ? 2 : 1);
}

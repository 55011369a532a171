/*
 * types.c - sizes of the element types of CUDA's libraries, and which narrow ones calls have named. Called by the hooks
 * of libraries; knows no library.
 */
#include "interpose/shim/libraries/library.h"

static void
note(enum library_type type)
{
    if ((__atomic_load_n(&shim_library_types, __ATOMIC_RELAXED) & (uint32_t)type) == 0)
        __atomic_fetch_or(&shim_library_types, (uint32_t)type, __ATOMIC_RELAXED);
}

static void
note_type(cudaDataType type)
{
    switch (type) {
    case CUDA_R_16F:
    case CUDA_C_16F:
        note(LIBRARY_FLOAT16);
        break;
    case CUDA_R_16BF:
    case CUDA_C_16BF:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
    case CUDA_R_6F_E2M3:
    case CUDA_R_6F_E3M2:
    case CUDA_R_4F_E2M1:
        note(LIBRARY_BFLOAT16);
        break;
    default:
        break;
    }
}

/* TF32 has the fraction of a float16. */
static void
note_compute(cublasComputeType_t compute)
{
    switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        note(LIBRARY_FLOAT16);
        break;
    case CUBLAS_COMPUTE_32F_FAST_16BF:
        note(LIBRARY_BFLOAT16);
        break;
    default:
        break;
    }
}

unsigned
type_bits(cudaDataType type)
{
    note_type(type);
    switch (type) {
    case CUDA_C_64F:
    case CUDA_C_64I:
    case CUDA_C_64U:
        return 128;
    case CUDA_R_64F:
    case CUDA_R_64I:
    case CUDA_R_64U:
    case CUDA_C_32F:
    case CUDA_C_32I:
    case CUDA_C_32U:
        return 64;
    case CUDA_R_32F:
    case CUDA_R_32I:
    case CUDA_R_32U:
    case CUDA_C_16F:
    case CUDA_C_16BF:
    case CUDA_C_16I:
    case CUDA_C_16U:
        return 32;
    case CUDA_R_16F:
    case CUDA_R_16BF:
    case CUDA_R_16I:
    case CUDA_R_16U:
    case CUDA_C_8I:
    case CUDA_C_8U:
        return 16;
    case CUDA_R_8I:
    case CUDA_R_8U:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
    case CUDA_R_8F_UE8M0:
    case CUDA_C_4I:
    case CUDA_C_4U:
        return 8;
    case CUDA_R_6F_E2M3:
    case CUDA_R_6F_E3M2:
        return 6;
    case CUDA_R_4I:
    case CUDA_R_4U:
    case CUDA_R_4F_E2M1:
        return 4;
    default:
        return 0;
    }
}

size_t
type_bytes(cudaDataType type)
{
    unsigned bits = type_bits(type);
    return bits >= 8 && bits % 8 == 0 ? bits / 8 : 16;
}

uint32_t
type_of_floats(cudaDataType type)
{
    return type == CUDA_R_32F    ? DDP_FLOAT32
           : type == CUDA_R_64F  ? DDP_FLOAT64
           : type == CUDA_R_16F  ? DDP_FLOAT16
           : type == CUDA_R_16BF ? DDP_BFLOAT16
                                 : 0;
}

static bool
is_complex(cudaDataType type)
{
    switch (type) {
    case CUDA_C_64F:
    case CUDA_C_32F:
    case CUDA_C_16F:
    case CUDA_C_16BF:
    case CUDA_C_8I:
    case CUDA_C_8U:
        return true;
    default:
        return false;
    }
}

size_t
scalar_of(cublasComputeType_t compute, cudaDataType result)
{
    note_compute(compute);
    size_t bytes = 4; /* float, or int for products of integers */
    switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
        bytes = 2;
        break;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
    case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT:
        bytes = 8;
        break;
    default:
        break;
    }
    return is_complex(result) ? 2 * bytes : bytes;
}

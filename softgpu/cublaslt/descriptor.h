/*
 * descriptor.h - what the opaque descriptors of cublasLt.h hold: matrix layouts, operations, preferences.
 *
 * Programs may have them on their own stack (cublasLt...Init), so each fits the size that the header gives it and owns
 * nothing. `magic` tells a descriptor from something else. Written by descriptor.c, read by check.c and matmul.c.
 */
#ifndef SOFTGPU_CUBLASLT_DESCRIPTOR_H
#define SOFTGPU_CUBLASLT_DESCRIPTOR_H

#include <assert.h>
#include <cublasLt.h>
#include <stdbool.h>
#include <stdint.h>

#define LAYOUT_MAGIC     0x6c74616cu
#define OPERATION_MAGIC  0x6c746f70u
#define PREFERENCE_MAGIC 0x6c747072u

struct layout {
    uint32_t magic;
    uint32_t type; /* cudaDataType */
    uint64_t rows, columns;
    int64_t ld;
    int64_t batch_stride; /* in elements */
    int64_t plane_offset;
    int32_t order; /* cublasLtOrder_t */
    int32_t batch_count;
    uint32_t batch_mode;
};

struct operation {
    uint32_t magic;
    int32_t compute_type, scale_type, pointer_mode;
    int32_t op_a, op_b, op_c, fill_mode;
    uint32_t epilogue;
    int32_t sm_count_target;
    void *bias;
    int64_t bias_batch_stride; /* in elements */
    void *aux;
    int64_t aux_ld, aux_batch_stride; /* in elements, of a bit mask in bits */
    int64_t alpha_vector_batch_stride;
    const void *a_scale, *b_scale, *c_scale, *d_scale, *aux_scale, *d_out_scale;
    void *amax_d, *aux_amax;
    int32_t aux_type, bias_type; /* cudaDataType, -1: the type of D */
    int32_t a_scale_mode, b_scale_mode, c_scale_mode, d_scale_mode, aux_scale_mode, d_out_scale_mode;
    const void *emulation;
    int8_t fast_accumulation;
};

struct preference {
    uint32_t magic;
    uint32_t search_mode;
    uint64_t workspace_bytes_at_most;
    uint32_t reduction_scheme_mask;
    uint32_t alignment_a, alignment_b, alignment_c, alignment_d;
    float waves_at_most;
    uint64_t implementation_mask;
};

/* What programs that are compiled against the headers of CUDA 13 reserve and read. */
static_assert(sizeof(cublasLtMatrixLayoutOpaque_t) == 64 && sizeof(cublasLtMatmulDescOpaque_t) == 256 &&
                  sizeof(cublasLtMatmulPreferenceOpaque_t) == 64 && sizeof(cublasLtMatmulAlgo_t) == 64,
              "CUDA 13");
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96 && offsetof(cublasLtMatmulHeuristicResult_t, algo) == 0 &&
                  offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64 &&
                  offsetof(cublasLtMatmulHeuristicResult_t, state) == 72 &&
                  offsetof(cublasLtMatmulHeuristicResult_t, wavesCount) == 76,
              "CUDA 13");
static_assert(sizeof(struct layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits what programs reserve");
static_assert(sizeof(struct operation) <= sizeof(cublasLtMatmulDescOpaque_t), "fits what programs reserve");
static_assert(sizeof(struct preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "fits what programs reserve");

/* NULL if the argument is not such a descriptor. */
const struct layout *layout_of(const cublasLtMatrixLayoutOpaque_t *descriptor);
const struct operation *operation_of(const cublasLtMatmulDescOpaque_t *descriptor);

/* The name of an attribute that is set to something the stand-in does not know how to do; NULL if there is no such
 * attribute. */
const char *operation_refused(const struct operation *operation);

#endif

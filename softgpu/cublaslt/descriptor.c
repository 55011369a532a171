/*
 * descriptor.c - making, filling and asking the descriptors of cublasLt; see descriptor.h.
 *
 * Each kind has one table of its attributes: where the value lies and how large it is. Setting checks the size only, as
 * cuBLASLt does; what a product cannot honour is refused where the product is asked for.
 */
#include "cublaslt/descriptor.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct attribute {
    const char *name; /* NULL: no such attribute */
    size_t offset, bytes;
    bool only_default; /* another value than the one it was made with is refused */
};

#define FIELD(structure, code, field, refused) \
    [code] = {#code, offsetof(struct structure, field), sizeof(((struct structure *)NULL)->field), refused}

static const struct attribute layout_attributes[] = {
    FIELD(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, type, false),
    FIELD(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, order, false),
    FIELD(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, rows, false),
    FIELD(layout, CUBLASLT_MATRIX_LAYOUT_COLS, columns, false),
    FIELD(layout, CUBLASLT_MATRIX_LAYOUT_LD, ld, false),
    FIELD(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch_count, false),
    FIELD(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride, false),
    FIELD(layout, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, plane_offset, false),
    FIELD(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, batch_mode, false),
};

static const struct attribute operation_attributes[] = {
    FIELD(operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute_type, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale_type, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_POINTER_MODE, pointer_mode, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_TRANSA, op_a, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_TRANSB, op_b, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_TRANSC, op_c, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_FILL_MODE, fill_mode, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, bias_batch_stride, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_ld, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, aux_batch_stride, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, alpha_vector_batch_stride, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, sm_count_target, false), /* a hint */
    FIELD(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a_scale, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, b_scale, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, c_scale, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, d_scale, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, amax_d, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, aux_type, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, aux_scale, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, aux_amax, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast_accumulation, false), /* a permission */
    FIELD(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type, false),
    FIELD(operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, a_scale_mode, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, b_scale_mode, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_C_SCALE_MODE, c_scale_mode, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_D_SCALE_MODE, d_scale_mode, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, aux_scale_mode, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER, d_out_scale, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, d_out_scale_mode, true),
    FIELD(operation, CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR, emulation, true),
};

static const struct attribute preference_attributes[] = {
    FIELD(preference, CUBLASLT_MATMUL_PREF_SEARCH_MODE, search_mode, false),
    FIELD(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes_at_most, false),
    FIELD(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction_scheme_mask, false),
    FIELD(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_a, false),
    FIELD(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_b, false),
    FIELD(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_c, false),
    FIELD(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_d, false),
    FIELD(preference, CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, waves_at_most, false),
    FIELD(preference, CUBLASLT_MATMUL_PREF_IMPL_MASK, implementation_mask, false),
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const struct attribute *
find_attribute(const struct attribute *table, size_t count, unsigned code)
{
    return code < count && table[code].name ? &table[code] : NULL;
}

/* `descriptor` is NULL if the caller's is not a descriptor. */
static cublasStatus_t
set_attribute(const struct attribute *attribute, void *descriptor, const void *value, size_t bytes)
{
    if (!attribute || !descriptor || !value || bytes != attribute->bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy((unsigned char *)descriptor + attribute->offset, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
get_attribute(const struct attribute *attribute, const void *descriptor, void *value, size_t bytes, size_t *written)
{
    if (!attribute || !descriptor || (bytes == 0 ? !written : !value || bytes != attribute->bytes))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes > 0)
        memcpy(value, (const unsigned char *)descriptor + attribute->offset, bytes);
    if (written)
        *written = attribute->bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- what each is made with ---- */

static struct operation
new_operation(cublasComputeType_t compute, cudaDataType scale)
{
    return (struct operation){
        .magic = OPERATION_MAGIC,
        .compute_type = compute,
        .scale_type = scale,
        .pointer_mode = CUBLASLT_POINTER_MODE_HOST,
        .op_a = CUBLAS_OP_N,
        .op_b = CUBLAS_OP_N,
        .op_c = CUBLAS_OP_N,
        .fill_mode = CUBLAS_FILL_MODE_FULL,
        .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
        .aux_type = -1,
        .bias_type = -1,
    };
}

static struct layout
new_layout(cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld)
{
    return (struct layout){.magic = LAYOUT_MAGIC,
                           .type = type,
                           .rows = rows,
                           .columns = columns,
                           .ld = ld,
                           .order = CUBLASLT_ORDER_COL,
                           .batch_count = 1};
}

static struct preference
new_preference(void)
{
    return (struct preference){.magic = PREFERENCE_MAGIC,
                               .search_mode = CUBLASLT_SEARCH_BEST_FIT,
                               .reduction_scheme_mask = CUBLASLT_REDUCTION_SCHEME_MASK,
                               .alignment_a = 256,
                               .alignment_b = 256,
                               .alignment_c = 256,
                               .alignment_d = 256,
                               .implementation_mask = UINT64_MAX};
}

const struct layout *
layout_of(const cublasLtMatrixLayoutOpaque_t *descriptor)
{
    const struct layout *layout = (const struct layout *)descriptor;
    return layout && layout->magic == LAYOUT_MAGIC ? layout : NULL;
}

const struct operation *
operation_of(const cublasLtMatmulDescOpaque_t *descriptor)
{
    const struct operation *operation = (const struct operation *)descriptor;
    return operation && operation->magic == OPERATION_MAGIC ? operation : NULL;
}

const char *
operation_refused(const struct operation *operation)
{
    struct operation made = new_operation((cublasComputeType_t)operation->compute_type, operation->scale_type);
    for (size_t i = 0; i < COUNT(operation_attributes); ++i) {
        const struct attribute *a = &operation_attributes[i];
        if (a->only_default && memcmp((const unsigned char *)operation + a->offset,
                                      (const unsigned char *)&made + a->offset, a->bytes) != 0)
            return a->name;
    }
    return NULL;
}

/* ---- exported ---- */

/* Create, Init, Destroy and the attributes of one kind; `make` is a value of it, `parameters` are in parentheses. */
#define DEFINE_DESCRIPTOR(kind, structure, magic_value, table, attribute_type, parameters, init_parameters, make)    \
    cublasStatus_t cublasLt##kind##Init_internal init_parameters                                                     \
    {                                                                                                                \
        if (!descriptor)                                                                                             \
            return CUBLAS_STATUS_INVALID_VALUE;                                                                      \
        if (size < sizeof(*descriptor))                                                                              \
            return CUBLAS_STATUS_ALLOC_FAILED;                                                                       \
        memset(descriptor, 0, sizeof(*descriptor));                                                                  \
        *(struct structure *)descriptor = make;                                                                      \
        return CUBLAS_STATUS_SUCCESS;                                                                                \
    }                                                                                                                \
    cublasStatus_t cublasLt##kind##Create parameters                                                                 \
    {                                                                                                                \
        if (!descriptor_p)                                                                                           \
            return CUBLAS_STATUS_INVALID_VALUE;                                                                      \
        cublasLt##kind##_t created = calloc(1, sizeof(*created));                                                    \
        if (!created)                                                                                                \
            return CUBLAS_STATUS_ALLOC_FAILED;                                                                       \
        *(struct structure *)created = make;                                                                         \
        *descriptor_p = created;                                                                                     \
        return CUBLAS_STATUS_SUCCESS;                                                                                \
    }                                                                                                                \
    cublasStatus_t cublasLt##kind##Destroy(cublasLt##kind##_t descriptor)                                            \
    {                                                                                                                \
        struct structure *held = (struct structure *)descriptor;                                                     \
        if (held && held->magic != magic_value)                                                                      \
            return CUBLAS_STATUS_INVALID_VALUE;                                                                      \
        if (held)                                                                                                    \
            held->magic = 0;                                                                                         \
        free(descriptor);                                                                                            \
        return CUBLAS_STATUS_SUCCESS;                                                                                \
    }                                                                                                                \
    cublasStatus_t cublasLt##kind##SetAttribute(cublasLt##kind##_t descriptor, attribute_type attr, const void *buf, \
                                                size_t sizeInBytes)                                                  \
    {                                                                                                                \
        struct structure *held = (struct structure *)descriptor;                                                     \
        bool usable = held && held->magic == magic_value;                                                            \
        return set_attribute(find_attribute(table, COUNT(table), attr), usable ? held : NULL, buf, sizeInBytes);     \
    }                                                                                                                \
    cublasStatus_t cublasLt##kind##GetAttribute(cublasLt##kind##_t descriptor, attribute_type attr, void *buf,       \
                                                size_t sizeInBytes, size_t *sizeWritten)                             \
    {                                                                                                                \
        const struct structure *held = (const struct structure *)descriptor;                                         \
        bool usable = held && held->magic == magic_value;                                                            \
        return get_attribute(find_attribute(table, COUNT(table), attr), usable ? held : NULL, buf, sizeInBytes,      \
                             sizeWritten);                                                                           \
    }

DEFINE_DESCRIPTOR(MatrixLayout, layout, LAYOUT_MAGIC, layout_attributes, cublasLtMatrixLayoutAttribute_t,
                  (cublasLtMatrixLayout_t * descriptor_p, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld),
                  (cublasLtMatrixLayout_t descriptor, size_t size, cudaDataType type, uint64_t rows, uint64_t cols,
                   int64_t ld),
                  new_layout(type, rows, cols, ld))
DEFINE_DESCRIPTOR(MatmulDesc, operation, OPERATION_MAGIC, operation_attributes, cublasLtMatmulDescAttributes_t,
                  (cublasLtMatmulDesc_t * descriptor_p, cublasComputeType_t computeType, cudaDataType scaleType),
                  (cublasLtMatmulDesc_t descriptor, size_t size, cublasComputeType_t computeType,
                   cudaDataType scaleType),
                  new_operation(computeType, scaleType))
DEFINE_DESCRIPTOR(MatmulPreference, preference, PREFERENCE_MAGIC, preference_attributes,
                  cublasLtMatmulPreferenceAttributes_t, (cublasLtMatmulPreference_t * descriptor_p),
                  (cublasLtMatmulPreference_t descriptor, size_t size), new_preference())

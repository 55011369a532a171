/*
 * gemm.c - the matrix products of cuBLAS: plain, strided batches, batches of pointers, and the ...Ex calls with types.
 *
 * Each call is checked here, in the order and with the codes that cuBLAS documents, and becomes one kernel; gemm_core.c
 * computes. All forms are one function with different strides.
 */
#include "cublas/context.h"
#include "cublas/gemm_core.h"

#include <limits.h>

/* A call, whatever its form. */
struct gemm_call {
    cublasOperation_t op_a, op_b;
    int64_t m, n, k;
    const void *alpha;
    const void *a, *b; /* matrices, or device arrays of pointers to them */
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c; /* in elements */
    const void *beta;
    void *c;
    int64_t batch_count;
    bool has_pointer_arrays;
    cudaDataType type_a, type_b, type_c;
    cudaDataType scalar_type;
};

/* What the kernel gets by value, besides the pointers. */
struct gemm_parameters {
    struct gemm_problem problem;
    int64_t stride_a, stride_b, stride_c; /* in bytes */
    int64_t batch_count;
    int32_t has_pointer_arrays;
    int32_t scalar_type; /* cudaDataType */
    double alpha, beta;  /* where the pointers are NULL */
};

enum { ARG_A, ARG_B, ARG_C, ARG_ALPHA, ARG_BETA, ARG_PARAMETERS };

static const struct softgpu_param gemm_layout[] = {
    [ARG_A] = {0, 8},      [ARG_B] = {8, 8},     [ARG_C] = {16, 8},
    [ARG_ALPHA] = {24, 8}, [ARG_BETA] = {32, 8}, [ARG_PARAMETERS] = {40, sizeof(struct gemm_parameters)},
};

static void
run_gemm(const struct softgpu_launch *launch)
{
    const struct gemm_parameters *parameters = launch->args[ARG_PARAMETERS];
    const char *a = *(const char *const *)launch->args[ARG_A];
    const char *b = *(const char *const *)launch->args[ARG_B];
    char *c = *(char *const *)launch->args[ARG_C];
    double alpha_value = scalar_value(launch, ARG_ALPHA, parameters->alpha, parameters->scalar_type);
    double beta_value = scalar_value(launch, ARG_BETA, parameters->beta, parameters->scalar_type);

    for (int64_t i = 0; i < parameters->batch_count; ++i) {
        if (parameters->has_pointer_arrays)
            gemm_compute(&parameters->problem, alpha_value, ((const void *const *)a)[i], ((const void *const *)b)[i],
                         beta_value, ((void *const *)c)[i]);
        else
            gemm_compute(&parameters->problem, alpha_value, a + i * parameters->stride_a, b + i * parameters->stride_b,
                         beta_value, c + i * parameters->stride_c);
    }
}

static struct softgpu_kernel gemm_kernel = SOFTGPU_KERNEL("cublas_gemm", run_gemm, gemm_layout);
static struct softgpu_kernel gemm_batched_kernel = SOFTGPU_KERNEL("cublas_gemm_batched", run_gemm, gemm_layout);

static bool
is_op(cublasOperation_t op)
{
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

static bool
is_leading_dimension(int64_t ld, int64_t rows)
{
    return ld >= (rows > 1 ? rows : 1);
}

static bool
are_types_supported(const struct gemm_call *call)
{
    if (call->type_a != call->type_b)
        return false;
    switch (call->type_a) {
    case CUDA_R_64F:
    case CUDA_R_32F:
        return call->type_c == call->type_a && call->scalar_type == call->type_a;
    case CUDA_R_16F:
        return call->scalar_type == CUDA_R_16F
                   ? call->type_c == CUDA_R_16F
                   : call->scalar_type == CUDA_R_32F && (call->type_c == CUDA_R_16F || call->type_c == CUDA_R_32F);
    case CUDA_R_16BF:
        return call->scalar_type == CUDA_R_32F && (call->type_c == CUDA_R_16BF || call->type_c == CUDA_R_32F);
    default:
        return false;
    }
}

/* The values, not the pointers, where the mode is host: a product times zero needs no factors. */
static bool
are_operands_given(const struct cublasContext *handle, const struct gemm_call *call)
{
    struct scalar alpha = scalar_take(handle, call->alpha, call->scalar_type);
    bool reads_factors = call->k > 0 && (alpha.device || alpha.value != 0.0);
    return call->c && (!reads_factors || (call->a && call->b));
}

static cublasStatus_t
check_gemm(const struct cublasContext *handle, const struct gemm_call *call)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_op(call->op_a) || !is_op(call->op_b) || call->m < 0 || call->n < 0 || call->k < 0 || call->batch_count < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_leading_dimension(call->lda, call->op_a == CUBLAS_OP_N ? call->m : call->k) ||
        !is_leading_dimension(call->ldb, call->op_b == CUBLAS_OP_N ? call->k : call->n) ||
        !is_leading_dimension(call->ldc, call->m))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!call->alpha || !call->beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!are_types_supported(call)) {
        static _Atomic bool said;
        if (!atomic_exchange(&said, true))
            softgpu_line(
                "a matrix product of the types %d and %d into %d with scalars of %d (enum cudaDataType) is not "
                "supported by the stand-in",
                (int)call->type_a, (int)call->type_b, (int)call->type_c, (int)call->scalar_type);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (call->m > INT_MAX || call->n > INT_MAX || call->k > INT_MAX || call->lda > INT_MAX || call->ldb > INT_MAX ||
        call->ldc > INT_MAX) {
        static _Atomic bool said;
        softgpu_line_unsupported("a matrix with a side of 2^31 or more", &said);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
gemm(struct cublasContext *handle, const struct gemm_call *call)
{
    cublasStatus_t status = check_gemm(handle, call);
    if (status != CUBLAS_STATUS_SUCCESS || call->m == 0 || call->n == 0 || call->batch_count == 0)
        return status;
    if (!are_operands_given(handle, call))
        return CUBLAS_STATUS_INVALID_VALUE;

    struct scalar alpha = scalar_take(handle, call->alpha, call->scalar_type);
    struct scalar beta = scalar_take(handle, call->beta, call->scalar_type);
    struct gemm_parameters parameters = {
        .problem = {.transposes_a = call->op_a != CUBLAS_OP_N,
                    .transposes_b = call->op_b != CUBLAS_OP_N,
                    .input_type = call->type_a,
                    .output_type = call->type_c,
                    .m = call->m,
                    .n = call->n,
                    .k = call->k,
                    .lda = call->lda,
                    .ldb = call->ldb,
                    .ldc = call->ldc,
                    .cut = softgpu_cut(call->m, call->n, call->k),
                    .partial = call->k >= call->m ? context_partial(handle, GEMM_PARTIAL_BYTES) : NULL},
        .stride_a = call->stride_a * (int64_t)data_bytes(call->type_a),
        .stride_b = call->stride_b * (int64_t)data_bytes(call->type_b),
        .stride_c = call->stride_c * (int64_t)data_bytes(call->type_c),
        .batch_count = call->batch_count,
        .has_pointer_arrays = call->has_pointer_arrays,
        .scalar_type = call->scalar_type,
        .alpha = alpha.value,
        .beta = beta.value,
    };
    const void *a = call->a, *b = call->b;
    void *c = call->c;
    void *args[] = {&a, &b, &c, &alpha.device, &beta.device, &parameters};
    return context_launch(handle, call->has_pointer_arrays ? &gemm_batched_kernel : &gemm_kernel, args);
}

/* The type of alpha and beta; false for a way of computing that the stand-in does not know. Fast modes compute in full.
 */
static bool
scalar_type_of(cublasComputeType_t compute, cudaDataType *type_p)
{
    switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
        *type_p = CUDA_R_16F;
        return true;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
    case CUBLAS_COMPUTE_32F_EMULATED_16BFX9:
        *type_p = CUDA_R_32F;
        return true;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
    case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT:
        *type_p = CUDA_R_64F;
        return true;
    default:
        return false;
    }
}

static cublasStatus_t
gemm_ex(struct cublasContext *handle, struct gemm_call *call, cublasComputeType_t compute)
{
    if (!scalar_type_of(compute, &call->scalar_type)) {
        static _Atomic bool said;
        softgpu_line_unsupported("a matrix product in integers", &said);
        return context_check(handle) == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED
                                                              : CUBLAS_STATUS_NOT_INITIALIZED;
    }
    return gemm(handle, call);
}

/* ---- exported: one definition for each element type and each width of integers ---- */

#define COMMON_OPERANDS                                                                                           \
    .op_a = transa, .op_b = transb, .m = m, .n = n, .k = k, .alpha = alpha, .beta = beta, .lda = lda, .ldb = ldb, \
    .ldc = ldc

#define DEFINE_GEMM(name, integer, element, type)                                                                    \
    cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, integer m,        \
                        integer n, integer k, const element *alpha, const element *A, integer lda, const element *B, \
                        integer ldb, const element *beta, element *C, integer ldc)                                   \
    {                                                                                                                \
        struct gemm_call call = {COMMON_OPERANDS, .a = A,           .b = B,                                          \
                                 .c = C,          .batch_count = 1, .type_a = type,                                  \
                                 .type_b = type,  .type_c = type,   .scalar_type = type};                            \
        return gemm(handle, &call);                                                                                  \
    }

#define DEFINE_GEMM_STRIDED(name, integer, stride, element, type)                                                    \
    cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, integer m,        \
                        integer n, integer k, const element *alpha, const element *A, integer lda, stride strideA,   \
                        const element *B, integer ldb, stride strideB, const element *beta, element *C, integer ldc, \
                        stride strideC, integer batchCount)                                                          \
    {                                                                                                                \
        struct gemm_call call = {COMMON_OPERANDS,                                                                    \
                                 .a = A,                                                                             \
                                 .b = B,                                                                             \
                                 .c = C,                                                                             \
                                 .stride_a = strideA,                                                                \
                                 .stride_b = strideB,                                                                \
                                 .stride_c = strideC,                                                                \
                                 .batch_count = batchCount,                                                          \
                                 .type_a = type,                                                                     \
                                 .type_b = type,                                                                     \
                                 .type_c = type,                                                                     \
                                 .scalar_type = type};                                                               \
        return gemm(handle, &call);                                                                                  \
    }

#define DEFINE_GEMM_BATCHED(name, integer, element, type)                                                         \
    cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, integer m,     \
                        integer n, integer k, const element *alpha, const element *const Aarray[], integer lda,   \
                        const element *const Barray[], integer ldb, const element *beta, element *const Carray[], \
                        integer ldc, integer batchCount)                                                          \
    {                                                                                                             \
        struct gemm_call call = {COMMON_OPERANDS,                                                                 \
                                 .a = Aarray,                                                                     \
                                 .b = Barray,                                                                     \
                                 .c = (void *)Carray,                                                             \
                                 .batch_count = batchCount,                                                       \
                                 .has_pointer_arrays = true,                                                      \
                                 .type_a = type,                                                                  \
                                 .type_b = type,                                                                  \
                                 .type_c = type,                                                                  \
                                 .scalar_type = type};                                                            \
        return gemm(handle, &call);                                                                               \
    }

#define DEFINE_GEMM_FAMILY(letter, element, type, middle)                                             \
    DEFINE_GEMM(cublas##letter##gemm##middle, int, element, type)                                     \
    DEFINE_GEMM(cublas##letter##gemm##middle##_64, int64_t, element, type)                            \
    DEFINE_GEMM_STRIDED(cublas##letter##gemmStridedBatched, int, long long int, element, type)        \
    DEFINE_GEMM_STRIDED(cublas##letter##gemmStridedBatched_64, int64_t, long long int, element, type) \
    DEFINE_GEMM_BATCHED(cublas##letter##gemmBatched, int, element, type)                              \
    DEFINE_GEMM_BATCHED(cublas##letter##gemmBatched_64, int64_t, element, type)

DEFINE_GEMM_FAMILY(S, float, CUDA_R_32F, _v2)
DEFINE_GEMM_FAMILY(D, double, CUDA_R_64F, _v2)
/*
 * The header declares these for C++ only, where __half is a class of two bytes. Products are accumulated in float,
 * which is at least as exact as a GPU's.
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
DEFINE_GEMM_FAMILY(H, uint16_t, CUDA_R_16F, )
#pragma GCC diagnostic pop

#define DEFINE_GEMM_EX(name, integer)                                                                                  \
    cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, integer m,          \
                        integer n, integer k, const void *alpha, const void *A, cudaDataType Atype, integer lda,       \
                        const void *B, cudaDataType Btype, integer ldb, const void *beta, void *C, cudaDataType Ctype, \
                        integer ldc, cublasComputeType_t computeType, cublasGemmAlgo_t algo)                           \
    {                                                                                                                  \
        (void)algo; /* a hint */                                                                                       \
        struct gemm_call call = {COMMON_OPERANDS,  .a = A,          .b = B,          .c = C,                           \
                                 .batch_count = 1, .type_a = Atype, .type_b = Btype, .type_c = Ctype};                 \
        return gemm_ex(handle, &call, computeType);                                                                    \
    }

#define DEFINE_GEMM_STRIDED_EX(name, integer)                                                                         \
    cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, integer m,         \
                        integer n, integer k, const void *alpha, const void *A, cudaDataType Atype, integer lda,      \
                        long long int strideA, const void *B, cudaDataType Btype, integer ldb, long long int strideB, \
                        const void *beta, void *C, cudaDataType Ctype, integer ldc, long long int strideC,            \
                        integer batchCount, cublasComputeType_t computeType, cublasGemmAlgo_t algo)                   \
    {                                                                                                                 \
        (void)algo; /* a hint */                                                                                      \
        struct gemm_call call = {COMMON_OPERANDS,                                                                     \
                                 .a = A,                                                                              \
                                 .b = B,                                                                              \
                                 .c = C,                                                                              \
                                 .stride_a = strideA,                                                                 \
                                 .stride_b = strideB,                                                                 \
                                 .stride_c = strideC,                                                                 \
                                 .batch_count = batchCount,                                                           \
                                 .type_a = Atype,                                                                     \
                                 .type_b = Btype,                                                                     \
                                 .type_c = Ctype};                                                                    \
        return gemm_ex(handle, &call, computeType);                                                                   \
    }

#define DEFINE_GEMM_BATCHED_EX(name, integer)                                                                       \
    cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, integer m,       \
                        integer n, integer k, const void *alpha, const void *const Aarray[], cudaDataType Atype,    \
                        integer lda, const void *const Barray[], cudaDataType Btype, integer ldb, const void *beta, \
                        void *const Carray[], cudaDataType Ctype, integer ldc, integer batchCount,                  \
                        cublasComputeType_t computeType, cublasGemmAlgo_t algo)                                     \
    {                                                                                                               \
        (void)algo; /* a hint */                                                                                    \
        struct gemm_call call = {COMMON_OPERANDS,                                                                   \
                                 .a = Aarray,                                                                       \
                                 .b = Barray,                                                                       \
                                 .c = (void *)Carray,                                                               \
                                 .batch_count = batchCount,                                                         \
                                 .has_pointer_arrays = true,                                                        \
                                 .type_a = Atype,                                                                   \
                                 .type_b = Btype,                                                                   \
                                 .type_c = Ctype};                                                                  \
        return gemm_ex(handle, &call, computeType);                                                                 \
    }

DEFINE_GEMM_BATCHED_EX(cublasGemmBatchedEx, int)
DEFINE_GEMM_BATCHED_EX(cublasGemmBatchedEx_64, int64_t)
DEFINE_GEMM_EX(cublasGemmEx, int)
DEFINE_GEMM_EX(cublasGemmEx_64, int64_t)
DEFINE_GEMM_STRIDED_EX(cublasGemmStridedBatchedEx, int)
DEFINE_GEMM_STRIDED_EX(cublasGemmStridedBatchedEx_64, int64_t)

#define DEFINE_SGEMM_EX(name, integer)                                                                            \
    cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, integer m,     \
                        integer n, integer k, const float *alpha, const void *A, cudaDataType Atype, integer lda, \
                        const void *B, cudaDataType Btype, integer ldb, const float *beta, void *C,               \
                        cudaDataType Ctype, integer ldc)                                                          \
    {                                                                                                             \
        struct gemm_call call = {COMMON_OPERANDS, .a = A,           .b = B,                                       \
                                 .c = C,          .batch_count = 1, .type_a = Atype,                              \
                                 .type_b = Btype, .type_c = Ctype,  .scalar_type = CUDA_R_32F};                   \
        return gemm(handle, &call);                                                                               \
    }

DEFINE_SGEMM_EX(cublasSgemmEx, int)
DEFINE_SGEMM_EX(cublasSgemmEx_64, int64_t)

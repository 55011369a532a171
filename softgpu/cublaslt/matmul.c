/*
 * matmul.c - cublasLtMatmul, one kernel a call, and the choice among its algorithms, of which there is one.
 *
 * The kernel has every matrix, the bias, the auxiliary matrix and device scalars as parameters of their own. float and
 * double products are computed where D lies and gone over once more for the epilogue; of 16-bit factors each tile gets
 * its epilogue in float before its one rounding.
 */
#include "cublas/context.h"
#include "cublas/element.h"
#include "cublaslt/check.h"
#include "cublaslt/handle.h"

#include <string.h>

#define ALGORITHM_MAGIC 0x6c74616c67u

/* What the kernel gets by value. */
struct matmul_parameters {
    struct product product;
    double alpha, beta; /* where their pointers are NULL */
};

enum { ARG_A, ARG_B, ARG_C, ARG_D, ARG_BIAS, ARG_AUX, ARG_ALPHA, ARG_BETA, ARG_PARAMETERS };

static const struct softgpu_param matmul_layout[] = {
    [ARG_A] = {0, 8},      [ARG_B] = {8, 8},     [ARG_C] = {16, 8},
    [ARG_D] = {24, 8},     [ARG_BIAS] = {32, 8}, [ARG_AUX] = {40, 8},
    [ARG_ALPHA] = {48, 8}, [ARG_BETA] = {56, 8}, [ARG_PARAMETERS] = {64, sizeof(struct matmul_parameters)},
};

/* One matrix product of a batch. */
struct matrices {
    const char *a, *b, *c; /* the program's */
    char *d, *bias, *aux;
};

/* ---- 16-bit factors ---- */

struct tile_sink {
    const struct product *product;
    const struct epilogue *epilogue;
    const struct matrices *at;
    float alpha, beta;
};

static void
finish_tile(void *context, int64_t i0, int64_t j0, int rows, int columns, float *sum)
{
    const struct tile_sink *sink = context;
    const struct product *p = sink->product;
    cudaDataType type = p->problem.output_type;
    for (int j = 0; j < columns; ++j) {
        for (int i = 0; i < rows; ++i) {
            float value = sink->alpha * sum[j * rows + i];
            if (sink->beta != 0.0f)
                value += sink->beta * load_element(sink->at->c, i0 + i + (j0 + j) * p->problem.ldc, type);
            sum[j * rows + i] = value;
        }
    }
    epilogue_float(sink->epilogue, i0, j0, rows, columns, sum, rows);
    for (int j = 0; j < columns; ++j) {
        for (int i = 0; i < rows; ++i)
            store_element(sink->at->d, i0 + i + (j0 + j) * p->ldd, type, sum[j * rows + i]);
    }
}

/* ---- float and double ---- */

/* The product adds to what is in D: C goes there first, if it is to be added and lies elsewhere. */
static void
bring_c(const struct product *p, const struct matrices *at, double beta)
{
    size_t bytes = p->problem.output_type == CUDA_R_64F ? 8 : 4;
    if (beta == 0.0 || at->c == at->d)
        return;
    if (at->c ==
        NULL) /* only a beta in device memory comes so far: on a GPU the kernel would fault, and so does this one */
        __builtin_trap();
    for (int64_t j = 0; j < p->problem.n; ++j)
        memcpy(at->d + (size_t)(j * p->ldd) * bytes, at->c + (size_t)(j * p->problem.ldc) * bytes,
               (size_t)p->problem.m * bytes);
}

static void
compute_in_place(const struct product *p, const struct epilogue *epilogue, const struct matrices *at, const void *first,
                 const void *second, double alpha, double beta)
{
    struct gemm_problem problem = p->problem;
    problem.ldc = p->ldd;
    bring_c(p, at, beta);
    gemm_compute(&problem, alpha, first, second, beta, at->d);
    if (epilogue->activation == ACTIVATION_NONE && !epilogue->bias)
        return;
    if (problem.output_type == CUDA_R_64F)
        epilogue_double(epilogue, 0, 0, problem.m, problem.n, (double *)at->d, p->ldd);
    else
        epilogue_float(epilogue, 0, 0, problem.m, problem.n, (float *)at->d, p->ldd);
}

/* ---- the kernel ---- */

static void
sum_bias_gradient(const struct product *p, const struct matrices *at)
{
    cudaDataType type = p->problem.output_type;
    if (p->bias_gradient == BIAS_GRADIENT_OF_D)
        sum_rows(at->d, type, p->is_swapped, p->rows, p->columns, p->ldd, at->bias);
    else if (p->bias_gradient == BIAS_GRADIENT_OF_A)
        sum_rows(at->a, type, p->transposes_a, p->rows, p->depth, p->lda, at->bias);
    else if (p->bias_gradient == BIAS_GRADIENT_OF_B) /* the columns of op(B) */
        sum_rows(at->b, type, !p->transposes_b, p->columns, p->depth, p->ldb, at->bias);
}

static void
run_product(const struct product *p, const struct matrices *at, double alpha, double beta)
{
    const struct epilogue epilogue = {
        .activation = p->activation,
        .type = p->problem.output_type,
        .bias = p->has_bias ? at->bias : NULL,
        .has_bias_by_column = p->is_swapped,
        .aux = p->has_aux ? at->aux : NULL,
        .aux_ld = p->aux_ld,
    };
    const void *first = p->is_swapped ? at->b : at->a, *second = p->is_swapped ? at->a : at->b;
    if (p->problem.input_type == CUDA_R_64F || p->problem.input_type == CUDA_R_32F) {
        compute_in_place(p, &epilogue, at, first, second, alpha, beta);
    } else {
        struct tile_sink sink = {p, &epilogue, at, (float)alpha, (float)beta};
        gemm_compute_tiles(&p->problem, alpha != 0.0, first, second, finish_tile, &sink);
    }
    sum_bias_gradient(p, at);
}

static double
load_scalar(const void *device, double value, cudaDataType type)
{
    if (!device)
        return value;
    return type == CUDA_R_64F ? *(const double *)device : (double)load_element(device, 0, type);
}

static void
run_matmul(const struct softgpu_launch *launch)
{
    const struct matmul_parameters *parameters = launch->args[ARG_PARAMETERS];
    const struct product *p = &parameters->product;
    struct matrices at = {*(const char *const *)launch->args[ARG_A], *(const char *const *)launch->args[ARG_B],
                          *(const char *const *)launch->args[ARG_C], *(char *const *)launch->args[ARG_D],
                          *(char *const *)launch->args[ARG_BIAS],    *(char *const *)launch->args[ARG_AUX]};
    double alpha = load_scalar(*(const void *const *)launch->args[ARG_ALPHA], parameters->alpha, p->scalar_type);
    double beta = load_scalar(*(const void *const *)launch->args[ARG_BETA], parameters->beta, p->scalar_type);
    for (int64_t i = 0; i < p->batch_count; ++i) {
        struct matrices one = {
            at.a + i * p->stride_a, at.b + i * p->stride_b, at.c, at.d + i * p->stride_d, at.bias, at.aux};
        if (at.c)
            one.c = at.c + i * p->stride_c;
        if (at.bias)
            one.bias = at.bias + i * p->stride_bias;
        if (at.aux)
            one.aux = at.aux + i * p->stride_aux;
        run_product(p, &one, alpha, beta);
    }
}

static struct softgpu_kernel matmul_kernel = SOFTGPU_KERNEL("cublaslt_matmul", run_matmul, matmul_layout);

static bool
is_ours(const cublasLtMatmulAlgo_t *algo)
{
    return algo->data[0] == ALGORITHM_MAGIC;
}

/* Whether every operand that will be read or written is there. */
static bool
are_operands_given(const struct product *p, const struct matmul_parameters *parameters, const void *a, const void *b,
                   const void *c, const void *d)
{
    bool knows_scalars = !p->is_scalar_on_device;
    bool is_nothing = p->rows == 0 || p->columns == 0 || p->batch_count == 0;
    bool sums_factor = p->bias_gradient == BIAS_GRADIENT_OF_A || p->bias_gradient == BIAS_GRADIENT_OF_B;
    bool reads_factors = p->depth > 0 && (!knows_scalars || parameters->alpha != 0.0 || sums_factor);
    bool reads_c = !knows_scalars || parameters->beta != 0.0;
    return is_nothing || (d && (!reads_factors || (a && b)) && (!reads_c || c));
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc, const void *alpha, const void *A,
               cublasLtMatrixLayout_t Adesc, const void *B, cublasLtMatrixLayout_t Bdesc, const void *beta,
               const void *C, cublasLtMatrixLayout_t Cdesc, void *D, cublasLtMatrixLayout_t Ddesc,
               const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspaceSizeInBytes, cudaStream_t stream)
{
    (void)workspace; /* nothing here needs one */
    (void)workspaceSizeInBytes;
    if (!handle_is_valid(lightHandle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta || (algo && !is_ours(algo)))
        return CUBLAS_STATUS_INVALID_VALUE;
    struct descriptors given = {operation_of(computeDesc), layout_of(Adesc), layout_of(Bdesc), layout_of(Cdesc),
                                layout_of(Ddesc)};
    struct matmul_parameters parameters;
    memset(&parameters, 0, sizeof(parameters));
    cublasStatus_t status = product_check(&given, &parameters.product);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;

    const struct product *p = &parameters.product;
    const void *device_alpha = p->is_scalar_on_device ? alpha : NULL;
    const void *device_beta = p->is_scalar_on_device ? beta : NULL;
    if (!p->is_scalar_on_device) {
        parameters.alpha = load_scalar(alpha, 0.0, p->scalar_type);
        parameters.beta = load_scalar(beta, 0.0, p->scalar_type);
    }
    if (!are_operands_given(p, &parameters, A, B, C, D))
        return CUBLAS_STATUS_INVALID_VALUE;
    bool uses_bias = p->has_bias || p->bias_gradient != BIAS_GRADIENT_NONE;
    if ((uses_bias && !given.operation->bias) || (p->has_aux && !given.operation->aux))
        return CUBLAS_STATUS_INVALID_VALUE;
    void *bias = uses_bias ? given.operation->bias : NULL, *aux = p->has_aux ? given.operation->aux : NULL;
    void *args[] = {&A, &B, &C, &D, &bias, &aux, &device_alpha, &device_beta, &parameters};
    CUresult result = softgpu_kernel_launch(&matmul_kernel, (CUstream)stream, args);
    return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* ---- algorithms ---- */

static cublasLtMatmulHeuristicResult_t
only_result(void)
{
    return (cublasLtMatmulHeuristicResult_t){
        .algo = {{ALGORITHM_MAGIC}}, .workspaceSize = 0, .state = CUBLAS_STATUS_SUCCESS, .wavesCount = 1.0f};
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
                               cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc,
                               cublasLtMatrixLayout_t Ddesc, cublasLtMatmulPreference_t preference,
                               int requestedAlgoCount, cublasLtMatmulHeuristicResult_t heuristicResultsArray[],
                               int *returnAlgoCount)
{
    if (!handle_is_valid(lightHandle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (requestedAlgoCount <= 0 || !heuristicResultsArray || !returnAlgoCount ||
        (preference && ((const struct preference *)preference)->magic != PREFERENCE_MAGIC))
        return CUBLAS_STATUS_INVALID_VALUE;
    struct descriptors given = {operation_of(operationDesc), layout_of(Adesc), layout_of(Bdesc), layout_of(Cdesc),
                                layout_of(Ddesc)};
    struct product product;
    cublasStatus_t status = product_check(&given, &product);
    *returnAlgoCount = status == CUBLAS_STATUS_SUCCESS;
    if (status == CUBLAS_STATUS_SUCCESS)
        heuristicResultsArray[0] = only_result();
    return status;
}

cublasStatus_t
cublasLtMatmulAlgoCheck(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc,
                        cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                        const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result)
{
    if (!handle_is_valid(lightHandle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!algo || !result || !is_ours(algo))
        return CUBLAS_STATUS_INVALID_VALUE;
    struct descriptors given = {operation_of(operationDesc), layout_of(Adesc), layout_of(Bdesc), layout_of(Cdesc),
                                layout_of(Ddesc)};
    struct product product;
    cublasStatus_t status = product_check(&given, &product);
    if (status == CUBLAS_STATUS_SUCCESS) {
        cublasLtMatmulHeuristicResult_t found = only_result();
        found.algo = *algo;
        *result = found;
    }
    return status;
}

/*
 * check.c - see check.h.
 */
#include "cublaslt/check.h"

#include "library/driver.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One line, unless the thread's last refusal had the same words: choosing an algorithm and using it are two calls. */
static cublasStatus_t __attribute__((format(printf, 1, 2))) refuse(const char *format, ...)
{
    static _Thread_local char last[256];
    char text[sizeof(last)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (strcmp(text, last) != 0)
        softgpu_line("cublasLtMatmul: %s not supported by the stand-in", text);
    snprintf(last, sizeof(last), "%s", text);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

static int64_t
type_bytes(cudaDataType type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

/* ---- layouts ---- */

static cublasStatus_t
check_layout(const struct layout *layout)
{
    if (layout->order != CUBLASLT_ORDER_COL && layout->order != CUBLASLT_ORDER_ROW)
        return refuse("a matrix in order %d (cublasLtOrder_t; use columns or rows) is", layout->order);
    if (layout->batch_mode != 0 || layout->plane_offset != 0)
        return refuse("batches of pointers and planar complex matrices are");
    if (layout->rows > INT_MAX || layout->columns > INT_MAX || layout->ld > INT_MAX)
        return refuse("a matrix with a side of 2^31 or more is");
    uint64_t length = layout->order == CUBLASLT_ORDER_COL ? layout->rows : layout->columns;
    if (layout->ld < (int64_t)(length > 1 ? length : 1) || layout->batch_count < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
check_layouts(const struct descriptors *given)
{
    const struct layout *all[] = {given->a, given->b, given->c, given->d};
    for (int i = 0; i < 4; ++i) {
        cublasStatus_t status = check_layout(all[i]);
        if (status != CUBLAS_STATUS_SUCCESS)
            return status;
        if (all[i]->batch_count != given->d->batch_count)
            return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (given->c->rows != given->d->rows || given->c->columns != given->d->columns)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (given->c->order != given->d->order)
        return refuse("C and D in different orders are");
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- types ---- */

/* The type that products are computed in, or -1. Fast modes compute in full. */
static int
compute_type_of(const struct operation *operation)
{
    switch (operation->compute_type) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
        return CUDA_R_16F;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        return CUDA_R_32F;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
        return CUDA_R_64F;
    default:
        return -1;
    }
}

static bool
are_types_known(const struct descriptors *given)
{
    uint32_t in = given->a->type, out = given->d->type;
    int compute = compute_type_of(given->operation);
    if (given->b->type != in || given->c->type != out || given->operation->scale_type != compute)
        return false;
    switch (in) {
    case CUDA_R_64F:
        return compute == CUDA_R_64F && out == CUDA_R_64F;
    case CUDA_R_32F:
        return compute == CUDA_R_32F && out == CUDA_R_32F;
    case CUDA_R_16F:
        return compute == CUDA_R_32F ? out == CUDA_R_16F || out == CUDA_R_32F
                                     : compute == CUDA_R_16F && out == CUDA_R_16F;
    case CUDA_R_16BF:
        return compute == CUDA_R_32F && (out == CUDA_R_16BF || out == CUDA_R_32F);
    default:
        return false;
    }
}

/* ---- epilogues ---- */

struct epilogue_row {
    uint32_t code;
    enum activation activation;
    bool has_bias, has_aux;
    enum bias_gradient bias_gradient;
};

static const struct epilogue_row epilogues[] = {
    {CUBLASLT_EPILOGUE_DEFAULT, ACTIVATION_NONE, false, false, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_RELU, ACTIVATION_RELU, false, false, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_RELU_AUX, ACTIVATION_RELU, false, true, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_BIAS, ACTIVATION_NONE, true, false, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_RELU_BIAS, ACTIVATION_RELU, true, false, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_RELU_AUX_BIAS, ACTIVATION_RELU, true, true, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_DRELU, ACTIVATION_RELU_GRADIENT, false, true, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_DRELU_BGRAD, ACTIVATION_RELU_GRADIENT, false, true, BIAS_GRADIENT_OF_D},
    {CUBLASLT_EPILOGUE_GELU, ACTIVATION_GELU, false, false, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_GELU_AUX, ACTIVATION_GELU, false, true, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_GELU_BIAS, ACTIVATION_GELU, true, false, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, ACTIVATION_GELU, true, true, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_DGELU, ACTIVATION_GELU_GRADIENT, false, true, BIAS_GRADIENT_NONE},
    {CUBLASLT_EPILOGUE_DGELU_BGRAD, ACTIVATION_GELU_GRADIENT, false, true, BIAS_GRADIENT_OF_D},
    {CUBLASLT_EPILOGUE_BGRADA, ACTIVATION_NONE, false, false, BIAS_GRADIENT_OF_A},
    {CUBLASLT_EPILOGUE_BGRADB, ACTIVATION_NONE, false, false, BIAS_GRADIENT_OF_B},
};

static cublasStatus_t
check_aux(const struct descriptors *given, const struct epilogue_row *row)
{
    const struct operation *operation = given->operation;
    bool is_mask = row->activation == ACTIVATION_RELU || row->activation == ACTIVATION_RELU_GRADIENT;
    if (operation->aux_ld % (is_mask ? 128 : 8) != 0 || operation->aux_ld < (int64_t)given->d->rows ||
        (is_mask && operation->aux_batch_stride % 128 != 0))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_mask && operation->aux_type != -1 && operation->aux_type != (int32_t)given->d->type)
        return refuse("an auxiliary matrix of another type than D's is");
    if (given->d->order != CUBLASLT_ORDER_COL)
        return refuse("an epilogue with an auxiliary matrix where D is stored by rows is");
    return CUBLAS_STATUS_SUCCESS;
}

static const struct epilogue_row *
find_epilogue(uint32_t code)
{
    for (size_t i = 0; i < sizeof(epilogues) / sizeof(epilogues[0]); ++i) {
        if (epilogues[i].code == code)
            return &epilogues[i];
    }
    return NULL;
}

static cublasStatus_t
check_epilogue(const struct descriptors *given, const struct epilogue_row *row)
{
    bool uses_bias = row->has_bias || row->bias_gradient != BIAS_GRADIENT_NONE;
    if (uses_bias && given->operation->bias_type != -1 && given->operation->bias_type != (int32_t)given->d->type)
        return refuse("a bias of another type than D's is");
    bool sums_factor = row->bias_gradient == BIAS_GRADIENT_OF_A || row->bias_gradient == BIAS_GRADIENT_OF_B;
    if (sums_factor && given->d->type != given->a->type)
        return refuse("a bias gradient of a factor whose type is not D's is");
    return row->has_aux ? check_aux(given, row) : CUBLAS_STATUS_SUCCESS;
}

static bool
is_op(int32_t op)
{
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

static cublasStatus_t
check_operation(const struct descriptors *given)
{
    const struct operation *operation = given->operation;
    if (!is_op(operation->op_a) || !is_op(operation->op_b))
        return CUBLAS_STATUS_INVALID_VALUE;
    const char *refused = operation_refused(operation);
    if (refused)
        return refuse("the attribute %s is", refused);
    if (operation->pointer_mode != CUBLASLT_POINTER_MODE_HOST &&
        operation->pointer_mode != CUBLASLT_POINTER_MODE_DEVICE)
        return refuse("vectors of alpha and beta (cublasLtPointerMode_t %d) are", operation->pointer_mode);
    if (!are_types_known(given))
        return refuse(
            "a product of the types %u and %u plus %u into %u with scalars of %d (enum cudaDataType), computed in "
            "%d (enum cublasComputeType_t) is",
            given->a->type, given->b->type, given->c->type, given->d->type, operation->scale_type,
            operation->compute_type);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product ---- */

static void
fill_problem(const struct descriptors *given, struct product *p)
{
    bool swaps = p->is_swapped;
    p->problem = (struct gemm_problem){
        .transposes_a = swaps ? !p->transposes_b : p->transposes_a,
        .transposes_b = swaps ? !p->transposes_a : p->transposes_b,
        .input_type = given->a->type,
        .output_type = given->d->type,
        .m = swaps ? p->columns : p->rows,
        .n = swaps ? p->rows : p->columns,
        .k = p->depth,
        .lda = swaps ? p->ldb : p->lda,
        .ldb = swaps ? p->lda : p->ldb,
        .ldc = given->c->ld,
    };
    p->problem.cut = softgpu_cut(p->problem.m, p->problem.n, p->problem.k);
}

cublasStatus_t
product_check(const struct descriptors *given, struct product *product_p)
{
    const struct operation *operation = given->operation;
    if (!operation || !given->a || !given->b || !given->c || !given->d)
        return CUBLAS_STATUS_INVALID_VALUE;
    const struct epilogue_row *row = find_epilogue(operation->epilogue);
    if (!row)
        return refuse("the epilogue %u (cublasLtEpilogue_t) is", operation->epilogue);
    cublasStatus_t status = check_operation(given);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = check_layouts(given);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = check_epilogue(given, row);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;

    bool flips_a = operation->op_a != CUBLAS_OP_N, flips_b = operation->op_b != CUBLAS_OP_N;
    uint64_t rows = flips_a ? given->a->columns : given->a->rows, depth = flips_a ? given->a->rows : given->a->columns;
    uint64_t depth_b = flips_b ? given->b->columns : given->b->rows,
             columns = flips_b ? given->b->rows : given->b->columns;
    if (depth != depth_b || rows != given->d->rows || columns != given->d->columns)
        return CUBLAS_STATUS_INVALID_VALUE;

    int64_t in_bytes = type_bytes(given->a->type), out_bytes = type_bytes(given->d->type);
    bool is_mask = row->activation == ACTIVATION_RELU || row->activation == ACTIVATION_RELU_GRADIENT;
    *product_p = (struct product){
        .ldd = given->d->ld,
        .rows = (int64_t)rows,
        .columns = (int64_t)columns,
        .depth = (int64_t)depth,
        .transposes_a = flips_a != (given->a->order == CUBLASLT_ORDER_ROW),
        .transposes_b = flips_b != (given->b->order == CUBLASLT_ORDER_ROW),
        .lda = given->a->ld,
        .ldb = given->b->ld,
        .is_swapped = given->d->order == CUBLASLT_ORDER_ROW,
        .is_scalar_on_device = operation->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE,
        .scalar_type = operation->scale_type,
        .batch_count = given->d->batch_count,
        .stride_a = given->a->batch_stride * in_bytes,
        .stride_b = given->b->batch_stride * in_bytes,
        .stride_c = given->c->batch_stride * out_bytes,
        .stride_d = given->d->batch_stride * out_bytes,
        .stride_bias = operation->bias_batch_stride * out_bytes,
        .stride_aux = is_mask ? operation->aux_batch_stride / 8 : operation->aux_batch_stride * out_bytes,
        .activation = row->activation,
        .has_bias = row->has_bias,
        .has_aux = row->has_aux,
        .aux_ld = operation->aux_ld,
        .bias_gradient = row->bias_gradient,
    };
    fill_problem(given, product_p);
    return CUBLAS_STATUS_SUCCESS;
}

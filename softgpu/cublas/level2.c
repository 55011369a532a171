/*
 * level2.c - matrix-vector products, rank-one updates, and geam (the sum of two matrices), for float and double.
 */
#include "cublas/context.h"

#include <cblas.h>
#include <limits.h>

enum matrix_routine { MATRIX_GEMV, MATRIX_GER, MATRIX_GEAM, MATRIX_COUNT };

/*
 * A call. The three operands are, in the order of cuBLAS: gemv A, x, y; ger x, y, A; geam A, B, C. The third is
 * written. `step` is the leading dimension or the increment that belongs to each.
 */
struct matrix_call {
    enum matrix_routine routine;
    cudaDataType type; /* CUDA_R_32F or CUDA_R_64F */
    cublasOperation_t op_a, op_b;
    int64_t m, n;
    const void *alpha, *beta; /* ger has no beta */
    const void *operand[2];
    void *output;
    int64_t step[3];
};

struct matrix_parameters {
    int32_t routine;
    int32_t type;
    int32_t transposes_a, transposes_b;
    int64_t m, n;
    int64_t step[3];
    double alpha, beta; /* where their pointers are NULL */
    int64_t cut;        /* softgpu_cut(), of gemv's sums; then `partial` gets the first sum after it, if not NULL */
    void *partial;
};

enum { ARG_FIRST, ARG_SECOND, ARG_OUTPUT, ARG_ALPHA, ARG_BETA, ARG_PARAMETERS };

static const struct softgpu_param matrix_layout[] = {
    [ARG_FIRST] = {0, 8},  [ARG_SECOND] = {8, 8}, [ARG_OUTPUT] = {16, 8},
    [ARG_ALPHA] = {24, 8}, [ARG_BETA] = {32, 8},  [ARG_PARAMETERS] = {40, sizeof(struct matrix_parameters)},
};

#define DEFINE_RUN(suffix, real, letter)                                                                              \
    /* y = alpha op(A) x + beta y. With beta == 0, y may hold anything and is not read. */                            \
    static void gemv_##suffix(const struct matrix_parameters *p, real alpha, const real *a, const real *x, real beta, \
                              real *y)                                                                                \
    {                                                                                                                 \
        int64_t length = p->transposes_a ? p->n : p->m, step = p->step[2] < 0 ? -p->step[2] : p->step[2];             \
        int64_t m = p->m, n = p->n, cut = p->step[1] > 0 ? p->cut : 0, *summed = p->transposes_a ? &m : &n;           \
        for (int64_t i = 0; i < length && beta == 0; ++i)                                                             \
            y[i * step] = 0;                                                                                          \
        beta = beta == 0 ? 1 : beta;                                                                                  \
        if (cut > 0) {                                                                                                \
            *summed -= cut;                                                                                           \
            cblas_##letter##gemv(CblasColMajor, p->transposes_a ? CblasTrans : CblasNoTrans, (int)m, (int)n, alpha,   \
                                 a + (p->transposes_a ? cut : cut * p->step[0]), (int)p->step[0],                     \
                                 x + cut * p->step[1], (int)p->step[1], beta, y, (int)p->step[2]);                    \
            if (p->partial)                                                                                           \
                *(real *)p->partial = *y;                                                                             \
            *summed = cut;                                                                                            \
            beta = 1;                                                                                                 \
        }                                                                                                             \
        cblas_##letter##gemv(CblasColMajor, p->transposes_a ? CblasTrans : CblasNoTrans, (int)m, (int)n, alpha, a,    \
                             (int)p->step[0], x, (int)p->step[1], beta, y, (int)p->step[2]);                          \
    }                                                                                                                 \
    /* C = alpha op(A) + beta op(B); a matrix times zero is not read. C may be A or B, if that is not transposed. */  \
    static void geam_##suffix(const struct matrix_parameters *p, real alpha, const real *a, real beta, const real *b, \
                              real *c)                                                                                \
    {                                                                                                                 \
        for (int64_t j = 0; j < p->n; ++j) {                                                                          \
            for (int64_t i = 0; i < p->m; ++i) {                                                                      \
                real sum = 0;                                                                                         \
                if (alpha != 0)                                                                                       \
                    sum = alpha * a[p->transposes_a ? j + i * p->step[0] : i + j * p->step[0]];                       \
                if (beta != 0)                                                                                        \
                    sum += beta * b[p->transposes_b ? j + i * p->step[1] : i + j * p->step[1]];                       \
                c[i + j * p->step[2]] = sum;                                                                          \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    static void run_##suffix(const struct matrix_parameters *p, real alpha, real beta, const real *first,             \
                             const real *second, real *output)                                                        \
    {                                                                                                                 \
        if (p->routine == MATRIX_GEMV)                                                                                \
            gemv_##suffix(p, alpha, first, second, beta, output);                                                     \
        else if (p->routine == MATRIX_GER)                                                                            \
            cblas_##letter##ger(CblasColMajor, (int)p->m, (int)p->n, alpha, first, (int)p->step[0], second,           \
                                (int)p->step[1], output, (int)p->step[2]);                                            \
        else                                                                                                          \
            geam_##suffix(p, alpha, first, beta, second, output);                                                     \
    }

DEFINE_RUN(float, float, s)
DEFINE_RUN(double, double, d)

static void
run_matrix(const struct softgpu_launch *launch)
{
    const struct matrix_parameters *p = launch->args[ARG_PARAMETERS];
    const void *first = *(const void *const *)launch->args[ARG_FIRST],
               *second = *(const void *const *)launch->args[ARG_SECOND];
    void *output = *(void *const *)launch->args[ARG_OUTPUT];
    double alpha_value = scalar_value(launch, ARG_ALPHA, p->alpha, p->type);
    double beta_value = scalar_value(launch, ARG_BETA, p->beta, p->type);
    if (p->type == CUDA_R_32F)
        run_float(p, (float)alpha_value, (float)beta_value, first, second, output);
    else
        run_double(p, alpha_value, beta_value, first, second, output);
}

static struct softgpu_kernel kernels[MATRIX_COUNT] = {
    [MATRIX_GEMV] = SOFTGPU_KERNEL("cublas_gemv", run_matrix, matrix_layout),
    [MATRIX_GER] = SOFTGPU_KERNEL("cublas_ger", run_matrix, matrix_layout),
    [MATRIX_GEAM] = SOFTGPU_KERNEL("cublas_geam", run_matrix, matrix_layout),
};

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
are_steps_valid(const struct matrix_call *call)
{
    switch (call->routine) {
    case MATRIX_GEMV:
        return is_leading_dimension(call->step[0], call->m) && call->step[1] != 0 && call->step[2] != 0;
    case MATRIX_GER:
        return call->step[0] != 0 && call->step[1] != 0 && is_leading_dimension(call->step[2], call->m);
    default: { /* MATRIX_GEAM: an operand that is C itself cannot be transposed, nor lie differently */
        bool a_fits = is_leading_dimension(call->step[0], call->op_a == CUBLAS_OP_N ? call->m : call->n);
        bool b_fits = is_leading_dimension(call->step[1], call->op_b == CUBLAS_OP_N ? call->m : call->n);
        bool a_in_place = call->operand[0] == call->output, b_in_place = call->operand[1] == call->output;
        return a_fits && b_fits && is_leading_dimension(call->step[2], call->m) &&
               (!a_in_place || (call->op_a == CUBLAS_OP_N && call->step[0] == call->step[2])) &&
               (!b_in_place || (call->op_b == CUBLAS_OP_N && call->step[1] == call->step[2]));
    }
    }
}

static cublasStatus_t
matrix(struct cublasContext *handle, const struct matrix_call *call)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_op(call->op_a) || !is_op(call->op_b) || call->m < 0 || call->n < 0 || !call->alpha ||
        (!call->beta && call->routine != MATRIX_GER) || !are_steps_valid(call))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (call->m > INT_MAX || call->n > INT_MAX || call->step[0] > INT_MAX || call->step[0] < INT_MIN ||
        call->step[1] > INT_MAX || call->step[1] < INT_MIN || call->step[2] > INT_MAX || call->step[2] < INT_MIN) {
        static _Atomic bool said;
        softgpu_line_unsupported("a matrix with a side of 2^31 or more", &said);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (call->m == 0 || call->n == 0)
        return CUBLAS_STATUS_SUCCESS;

    struct scalar alpha = scalar_take(handle, call->alpha, call->type);
    struct scalar beta = scalar_take(handle, call->beta, call->type);
    bool uses_alpha = alpha.device || alpha.value != 0.0, uses_beta = beta.device || beta.value != 0.0;
    bool reads_first = uses_alpha, reads_second = call->routine == MATRIX_GEAM ? uses_beta : uses_alpha;
    if (!call->output || (reads_first && !call->operand[0]) || (reads_second && !call->operand[1]))
        return CUBLAS_STATUS_INVALID_VALUE;

    struct matrix_parameters parameters = {
        .routine = (int32_t)call->routine,
        .type = (int32_t)call->type,
        .transposes_a = call->op_a != CUBLAS_OP_N,
        .transposes_b = call->op_b != CUBLAS_OP_N,
        .m = call->m,
        .n = call->n,
        .step = {call->step[0], call->step[1], call->step[2]},
        .alpha = alpha.value,
        .beta = beta.value,
        .cut = softgpu_cut(call->m, call->n, call->op_a == CUBLAS_OP_N ? call->n : call->m),
        .partial = context_partial(handle, sizeof(double)),
    };
    const void *first = call->operand[0], *second = call->operand[1];
    void *output = call->output;
    void *args[] = {&first, &second, &output, &alpha.device, &beta.device, &parameters};
    return context_launch(handle, &kernels[call->routine], args);
}

/* ---- exported ---- */

#define DEFINE_ROUTINES(letter, real, cuda_type, integer, v2, suffix)                                                 \
    cublasStatus_t cublas##letter##gemv##v2##suffix(                                                                  \
        cublasHandle_t handle, cublasOperation_t trans, integer m, integer n, const real *alpha, const real *A,       \
        integer lda, const real *x, integer incx, const real *beta, real *y, integer incy)                            \
    {                                                                                                                 \
        struct matrix_call call = {MATRIX_GEMV, cuda_type, trans, CUBLAS_OP_N,      m, n, alpha,                      \
                                   beta,        {A, x},    y,     {lda, incx, incy}};                                 \
        return matrix(handle, &call);                                                                                 \
    }                                                                                                                 \
    cublasStatus_t cublas##letter##ger##v2##suffix(cublasHandle_t handle, integer m, integer n, const real *alpha,    \
                                                   const real *x, integer incx, const real *y, integer incy, real *A, \
                                                   integer lda)                                                       \
    {                                                                                                                 \
        struct matrix_call call = {MATRIX_GER, cuda_type, CUBLAS_OP_N, CUBLAS_OP_N,      m, n, alpha,                 \
                                   NULL,       {x, y},    A,           {incx, incy, lda}};                            \
        return matrix(handle, &call);                                                                                 \
    }                                                                                                                 \
    cublasStatus_t cublas##letter##geam##suffix(cublasHandle_t handle, cublasOperation_t transa,                      \
                                                cublasOperation_t transb, integer m, integer n, const real *alpha,    \
                                                const real *A, integer lda, const real *beta, const real *B,          \
                                                integer ldb, real *C, integer ldc)                                    \
    {                                                                                                                 \
        struct matrix_call call = {MATRIX_GEAM, cuda_type, transa, transb,         m, n, alpha,                       \
                                   beta,        {A, B},    C,      {lda, ldb, ldc}};                                  \
        return matrix(handle, &call);                                                                                 \
    }

DEFINE_ROUTINES(S, float, CUDA_R_32F, int, _v2, )
DEFINE_ROUTINES(D, double, CUDA_R_64F, int, _v2, )
DEFINE_ROUTINES(S, float, CUDA_R_32F, int64_t, _v2, _64)
DEFINE_ROUTINES(D, double, CUDA_R_64F, int64_t, _v2, _64)

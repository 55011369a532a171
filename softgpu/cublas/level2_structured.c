/*
 * level2_structured.c - the routines of cuBLAS for a symmetric or triangular matrix and vectors, for float and double:
 * symv, syr, syr2, trmv, trsv. A triangle that a routine does not use is neither read nor written.
 */
#include "cublas/context.h"

#include <cblas.h>
#include <limits.h>

enum triangle_routine {
    TRIANGLE_SYMV, /* y = alpha A x + beta y */
    TRIANGLE_SYR,  /* A += alpha x x' */
    TRIANGLE_SYR2, /* A += alpha (x y' + y x') */
    TRIANGLE_TRMV, /* x = op(A) x */
    TRIANGLE_TRSV, /* op(A) x = b, b given in x */
    TRIANGLE_COUNT
};

struct triangle_call {
    enum triangle_routine routine;
    cudaDataType type; /* CUDA_R_32F or CUDA_R_64F */
    cublasFillMode_t uplo;
    cublasOperation_t op;
    cublasDiagType_t diag;
    int64_t n, lda, incx, incy;
    const void *alpha, *beta;
    void *a, *x, *y; /* symv writes y, syr and syr2 A, trmv and trsv x */
};

struct triangle_parameters {
    int32_t routine, type;
    int32_t uplo, op, diag; /* as CBLAS has them */
    int64_t n, lda, incx, incy;
    double alpha, beta; /* where their pointers are NULL */
};

enum { ARG_A, ARG_X, ARG_Y, ARG_ALPHA, ARG_BETA, ARG_PARAMETERS };

static const struct softgpu_param triangle_layout[] = {
    [ARG_A] = {0, 8},      [ARG_X] = {8, 8},     [ARG_Y] = {16, 8},
    [ARG_ALPHA] = {24, 8}, [ARG_BETA] = {32, 8}, [ARG_PARAMETERS] = {40, sizeof(struct triangle_parameters)},
};

#define DEFINE_RUN(suffix, real, letter)                                                                            \
    static void symv_##suffix(const struct triangle_parameters *p, real alpha, const real *a, const real *x,        \
                              real beta, real *y)                                                                   \
    {                                                                                                               \
        int64_t step = p->incy < 0 ? -p->incy : p->incy;                                                            \
        for (int64_t i = 0; i < p->n && beta == 0; ++i) /* y may hold anything, and is not read */                  \
            y[i * step] = 0;                                                                                        \
        cblas_##letter##symv(CblasColMajor, (CBLAS_UPLO)p->uplo, (int)p->n, alpha, a, (int)p->lda, x, (int)p->incx, \
                             beta == 0 ? 1 : beta, y, (int)p->incy);                                                \
    }                                                                                                               \
    static void run_##suffix(const struct triangle_parameters *p, real alpha, real beta, real *a, real *x, real *y) \
    {                                                                                                               \
        CBLAS_UPLO uplo = (CBLAS_UPLO)p->uplo;                                                                      \
        CBLAS_TRANSPOSE op = (CBLAS_TRANSPOSE)p->op;                                                                \
        CBLAS_DIAG diag = (CBLAS_DIAG)p->diag;                                                                      \
        int n = (int)p->n, lda = (int)p->lda, incx = (int)p->incx, incy = (int)p->incy;                             \
        switch ((enum triangle_routine)p->routine) {                                                                \
        case TRIANGLE_SYMV:                                                                                         \
            symv_##suffix(p, alpha, a, x, beta, y);                                                                 \
            break;                                                                                                  \
        case TRIANGLE_SYR:                                                                                          \
            cblas_##letter##syr(CblasColMajor, uplo, n, alpha, x, incx, a, lda);                                    \
            break;                                                                                                  \
        case TRIANGLE_SYR2:                                                                                         \
            cblas_##letter##syr2(CblasColMajor, uplo, n, alpha, x, incx, y, incy, a, lda);                          \
            break;                                                                                                  \
        case TRIANGLE_TRMV:                                                                                         \
            cblas_##letter##trmv(CblasColMajor, uplo, op, diag, n, a, lda, x, incx);                                \
            break;                                                                                                  \
        default: /* TRIANGLE_TRSV */                                                                                \
            cblas_##letter##trsv(CblasColMajor, uplo, op, diag, n, a, lda, x, incx);                                \
            break;                                                                                                  \
        }                                                                                                           \
    }

DEFINE_RUN(float, float, s)
DEFINE_RUN(double, double, d)

static void
run_triangle(const struct softgpu_launch *launch)
{
    const struct triangle_parameters *p = launch->args[ARG_PARAMETERS];
    void *a = *(void *const *)launch->args[ARG_A], *x = *(void *const *)launch->args[ARG_X],
         *y = *(void *const *)launch->args[ARG_Y];
    struct scalar alpha = {*(const void *const *)launch->args[ARG_ALPHA], p->alpha};
    struct scalar beta = {*(const void *const *)launch->args[ARG_BETA], p->beta};
    double alpha_value = scalar_value(&alpha, (cudaDataType)p->type),
           beta_value = scalar_value(&beta, (cudaDataType)p->type);
    if (p->type == CUDA_R_32F)
        run_float(p, (float)alpha_value, (float)beta_value, a, x, y);
    else
        run_double(p, alpha_value, beta_value, a, x, y);
}

static struct softgpu_kernel kernels[TRIANGLE_COUNT] = {
    [TRIANGLE_SYMV] = SOFTGPU_KERNEL("cublas_symv", run_triangle, triangle_layout),
    [TRIANGLE_SYR] = SOFTGPU_KERNEL("cublas_syr", run_triangle, triangle_layout),
    [TRIANGLE_SYR2] = SOFTGPU_KERNEL("cublas_syr2", run_triangle, triangle_layout),
    [TRIANGLE_TRMV] = SOFTGPU_KERNEL("cublas_trmv", run_triangle, triangle_layout),
    [TRIANGLE_TRSV] = SOFTGPU_KERNEL("cublas_trsv", run_triangle, triangle_layout),
};

static cublasStatus_t
check_triangle(const struct cublasContext *handle, const struct triangle_call *call)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    bool takes_alpha = call->routine <= TRIANGLE_SYR2;
    bool takes_y = call->routine == TRIANGLE_SYMV || call->routine == TRIANGLE_SYR2;
    if ((call->uplo != CUBLAS_FILL_MODE_LOWER && call->uplo != CUBLAS_FILL_MODE_UPPER) ||
        (call->op != CUBLAS_OP_N && call->op != CUBLAS_OP_T && call->op != CUBLAS_OP_C) ||
        (call->diag != CUBLAS_DIAG_NON_UNIT && call->diag != CUBLAS_DIAG_UNIT) || call->n < 0 ||
        call->lda < (call->n > 1 ? call->n : 1) || call->incx == 0 || (takes_y && call->incy == 0) ||
        (takes_alpha && !call->alpha) || (call->routine == TRIANGLE_SYMV && !call->beta))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (call->n > 0 && (!call->a || !call->x || (takes_y && !call->y)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (call->lda > INT_MAX || call->incx > INT_MAX || call->incx < -INT_MAX || call->incy > INT_MAX ||
        call->incy < -INT_MAX) {
        static _Atomic bool said;
        softgpu_line_unsupported("a matrix or a stride of 2^31 or more", &said);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
triangle(struct cublasContext *handle, const struct triangle_call *call)
{
    cublasStatus_t status = check_triangle(handle, call);
    if (status != CUBLAS_STATUS_SUCCESS || call->n == 0)
        return status;
    struct scalar alpha = {NULL, 0.0}, beta = {NULL, 0.0};
    if (call->alpha)
        alpha = scalar_take(handle, call->alpha, call->type);
    if (call->beta)
        beta = scalar_take(handle, call->beta, call->type);
    struct triangle_parameters parameters = {
        .routine = (int32_t)call->routine,
        .type = (int32_t)call->type,
        .uplo = call->uplo == CUBLAS_FILL_MODE_LOWER ? CblasLower : CblasUpper,
        .op = call->op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans,
        .diag = call->diag == CUBLAS_DIAG_UNIT ? CblasUnit : CblasNonUnit,
        .n = call->n,
        .lda = call->lda,
        .incx = call->incx,
        .incy = call->incy,
        .alpha = alpha.value,
        .beta = beta.value,
    };
    void *a = call->a, *x = call->x, *y = call->y;
    void *args[] = {&a, &x, &y, &alpha.device, &beta.device, &parameters};
    return context_launch(handle, &kernels[call->routine], args);
}

/* ---- exported ---- */

#define COMMON(given_routine, cuda_type)                                                                         \
    .routine = given_routine, .type = cuda_type, .uplo = uplo, .n = n, .lda = lda, .incx = incx, .a = (void *)A, \
    .x = (void *)x

#define DEFINE_SOLVER(name, which, real, cuda_type, integer)                                                          \
    cublasStatus_t name(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, cublasDiagType_t diag, \
                        integer n, const real *A, integer lda, real *x, integer incx)                                 \
    {                                                                                                                 \
        struct triangle_call call = {COMMON(which, cuda_type), .op = trans, .diag = diag};                            \
        return triangle(handle, &call);                                                                               \
    }

#define DEFINE_ROUTINES(letter, real, cuda_type, integer, suffix)                                                     \
    cublasStatus_t cublas##letter##symv##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,              \
                                                const real *alpha, const real *A, integer lda, const real *x,         \
                                                integer incx, const real *beta, real *y, integer incy)                \
    {                                                                                                                 \
        struct triangle_call call = {COMMON(TRIANGLE_SYMV, cuda_type), .incy = incy, .alpha = alpha, .beta = beta,    \
                                     .y = y};                                                                         \
        return triangle(handle, &call);                                                                               \
    }                                                                                                                 \
    cublasStatus_t cublas##letter##syr##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,               \
                                               const real *alpha, const real *x, integer incx, real *A, integer lda)  \
    {                                                                                                                 \
        struct triangle_call call = {COMMON(TRIANGLE_SYR, cuda_type), .alpha = alpha};                                \
        return triangle(handle, &call);                                                                               \
    }                                                                                                                 \
    cublasStatus_t cublas##letter##syr2##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,              \
                                                const real *alpha, const real *x, integer incx, const real *y,        \
                                                integer incy, real *A, integer lda)                                   \
    {                                                                                                                 \
        struct triangle_call call = {COMMON(TRIANGLE_SYR2, cuda_type), .incy = incy, .alpha = alpha, .y = (void *)y}; \
        return triangle(handle, &call);                                                                               \
    }                                                                                                                 \
    DEFINE_SOLVER(cublas##letter##trmv##suffix, TRIANGLE_TRMV, real, cuda_type, integer)                              \
    DEFINE_SOLVER(cublas##letter##trsv##suffix, TRIANGLE_TRSV, real, cuda_type, integer)

DEFINE_ROUTINES(S, float, CUDA_R_32F, int, _v2)
DEFINE_ROUTINES(D, double, CUDA_R_64F, int, _v2)
DEFINE_ROUTINES(S, float, CUDA_R_32F, int64_t, _v2_64)
DEFINE_ROUTINES(D, double, CUDA_R_64F, int64_t, _v2_64)

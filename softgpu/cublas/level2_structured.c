/*
 * level2_structured.c - the routines of cuBLAS for vectors and a matrix that is symmetric, triangular, banded or
 * packed, for float and double. A triangle that a routine does not use is neither read nor written.
 */
#include "cublas/context.h"

#include <cblas.h>
#include <limits.h>

/* SY, TR: the matrix is symmetric or triangular; SB, TB: banded besides; SP, TP: its triangle lies packed. */
enum structured_routine {
    STRUCTURED_GBMV, /* y = alpha op(A) x + beta y, A m x n with kl diagonals below and ku above its own */
    STRUCTURED_SBMV, /* the same for a symmetric A with k diagonals beside its own */
    STRUCTURED_SPMV,
    STRUCTURED_SYMV,
    STRUCTURED_SPR, /* A += alpha x x' */
    STRUCTURED_SYR,
    STRUCTURED_SPR2, /* A += alpha (x y' + y x') */
    STRUCTURED_SYR2,
    STRUCTURED_TBMV, /* x = op(A) x */
    STRUCTURED_TPMV,
    STRUCTURED_TRMV,
    STRUCTURED_TBSV, /* op(A) x = b, b given in x */
    STRUCTURED_TPSV,
    STRUCTURED_TRSV,
    STRUCTURED_COUNT
};

struct structured_call {
    enum structured_routine routine;
    cudaDataType type; /* CUDA_R_32F or CUDA_R_64F */
    cublasFillMode_t uplo;
    cublasOperation_t op;
    cublasDiagType_t diag;
    int64_t m, n;   /* m of gbmv only */
    int64_t kl, ku; /* sbmv, tbmv and tbsv have their k in kl */
    int64_t lda;    /* of what is not packed */
    int64_t incx, incy;
    const void *alpha, *beta;
    void *a, *x, *y; /* the routines up to SYMV write y, those up to SYR2 A, the others x */
};

struct structured_parameters {
    int32_t routine, type;
    int32_t uplo, op, diag; /* as CBLAS has them */
    int64_t m, n, kl, ku, lda, incx, incy;
    double alpha, beta; /* where their pointers are NULL */
};

enum { ARG_A, ARG_X, ARG_Y, ARG_ALPHA, ARG_BETA, ARG_PARAMETERS };

static const struct softgpu_param structured_layout[] = {
    [ARG_A] = {0, 8},      [ARG_X] = {8, 8},     [ARG_Y] = {16, 8},
    [ARG_ALPHA] = {24, 8}, [ARG_BETA] = {32, 8}, [ARG_PARAMETERS] = {40, sizeof(struct structured_parameters)},
};

#define DEFINE_RUN(suffix, real, letter)                                                                              \
    /* With beta == 0, y may hold anything, and is not read. */                                                       \
    static real clear_##suffix(const struct structured_parameters *p, real beta, real *y)                             \
    {                                                                                                                 \
        int64_t length = p->routine == STRUCTURED_GBMV && p->op == CblasNoTrans ? p->m : p->n;                        \
        int64_t step = p->incy < 0 ? -p->incy : p->incy;                                                              \
        for (int64_t i = 0; i < length && beta == 0; ++i)                                                             \
            y[i * step] = 0;                                                                                          \
        return beta == 0 ? 1 : beta;                                                                                  \
    }                                                                                                                 \
    static void run_##suffix(const struct structured_parameters *p, real alpha, real beta, real *a, real *x, real *y) \
    {                                                                                                                 \
        CBLAS_UPLO uplo = (CBLAS_UPLO)p->uplo;                                                                        \
        CBLAS_TRANSPOSE op = (CBLAS_TRANSPOSE)p->op;                                                                  \
        CBLAS_DIAG diag = (CBLAS_DIAG)p->diag;                                                                        \
        int m = (int)p->m, n = (int)p->n, kl = (int)p->kl, ku = (int)p->ku, lda = (int)p->lda;                        \
        int incx = (int)p->incx, incy = (int)p->incy;                                                                 \
        if (p->routine <= STRUCTURED_SYMV)                                                                            \
            beta = clear_##suffix(p, beta, y);                                                                        \
        switch ((enum structured_routine)p->routine) {                                                                \
        case STRUCTURED_GBMV:                                                                                         \
            cblas_##letter##gbmv(CblasColMajor, op, m, n, kl, ku, alpha, a, lda, x, incx, beta, y, incy);             \
            break;                                                                                                    \
        case STRUCTURED_SBMV:                                                                                         \
            cblas_##letter##sbmv(CblasColMajor, uplo, n, kl, alpha, a, lda, x, incx, beta, y, incy);                  \
            break;                                                                                                    \
        case STRUCTURED_SPMV:                                                                                         \
            cblas_##letter##spmv(CblasColMajor, uplo, n, alpha, a, x, incx, beta, y, incy);                           \
            break;                                                                                                    \
        case STRUCTURED_SYMV:                                                                                         \
            cblas_##letter##symv(CblasColMajor, uplo, n, alpha, a, lda, x, incx, beta, y, incy);                      \
            break;                                                                                                    \
        case STRUCTURED_SPR:                                                                                          \
            cblas_##letter##spr(CblasColMajor, uplo, n, alpha, x, incx, a);                                           \
            break;                                                                                                    \
        case STRUCTURED_SYR:                                                                                          \
            cblas_##letter##syr(CblasColMajor, uplo, n, alpha, x, incx, a, lda);                                      \
            break;                                                                                                    \
        case STRUCTURED_SPR2:                                                                                         \
            cblas_##letter##spr2(CblasColMajor, uplo, n, alpha, x, incx, y, incy, a);                                 \
            break;                                                                                                    \
        case STRUCTURED_SYR2:                                                                                         \
            cblas_##letter##syr2(CblasColMajor, uplo, n, alpha, x, incx, y, incy, a, lda);                            \
            break;                                                                                                    \
        case STRUCTURED_TBMV:                                                                                         \
            cblas_##letter##tbmv(CblasColMajor, uplo, op, diag, n, kl, a, lda, x, incx);                              \
            break;                                                                                                    \
        case STRUCTURED_TBSV:                                                                                         \
            cblas_##letter##tbsv(CblasColMajor, uplo, op, diag, n, kl, a, lda, x, incx);                              \
            break;                                                                                                    \
        case STRUCTURED_TPMV:                                                                                         \
            cblas_##letter##tpmv(CblasColMajor, uplo, op, diag, n, a, x, incx);                                       \
            break;                                                                                                    \
        case STRUCTURED_TRMV:                                                                                         \
            cblas_##letter##trmv(CblasColMajor, uplo, op, diag, n, a, lda, x, incx);                                  \
            break;                                                                                                    \
        case STRUCTURED_TRSV:                                                                                         \
            cblas_##letter##trsv(CblasColMajor, uplo, op, diag, n, a, lda, x, incx);                                  \
            break;                                                                                                    \
        default: /* STRUCTURED_TPSV */                                                                                \
            cblas_##letter##tpsv(CblasColMajor, uplo, op, diag, n, a, x, incx);                                       \
            break;                                                                                                    \
        }                                                                                                             \
    }

DEFINE_RUN(float, float, s)
DEFINE_RUN(double, double, d)

static void
run_structured(const struct softgpu_launch *launch)
{
    const struct structured_parameters *p = launch->args[ARG_PARAMETERS];
    void *a = *(void *const *)launch->args[ARG_A], *x = *(void *const *)launch->args[ARG_X],
         *y = *(void *const *)launch->args[ARG_Y];
    double alpha_value = scalar_value(launch, ARG_ALPHA, p->alpha, p->type);
    double beta_value = scalar_value(launch, ARG_BETA, p->beta, p->type);
    if (p->type == CUDA_R_32F)
        run_float(p, (float)alpha_value, (float)beta_value, a, x, y);
    else
        run_double(p, alpha_value, beta_value, a, x, y);
}

static struct softgpu_kernel kernels[STRUCTURED_COUNT] = {
    [STRUCTURED_GBMV] = SOFTGPU_KERNEL("cublas_gbmv", run_structured, structured_layout),
    [STRUCTURED_SBMV] = SOFTGPU_KERNEL("cublas_sbmv", run_structured, structured_layout),
    [STRUCTURED_SPMV] = SOFTGPU_KERNEL("cublas_spmv", run_structured, structured_layout),
    [STRUCTURED_SPR] = SOFTGPU_KERNEL("cublas_spr", run_structured, structured_layout),
    [STRUCTURED_SPR2] = SOFTGPU_KERNEL("cublas_spr2", run_structured, structured_layout),
    [STRUCTURED_TBMV] = SOFTGPU_KERNEL("cublas_tbmv", run_structured, structured_layout),
    [STRUCTURED_TBSV] = SOFTGPU_KERNEL("cublas_tbsv", run_structured, structured_layout),
    [STRUCTURED_TPMV] = SOFTGPU_KERNEL("cublas_tpmv", run_structured, structured_layout),
    [STRUCTURED_TPSV] = SOFTGPU_KERNEL("cublas_tpsv", run_structured, structured_layout),
    [STRUCTURED_SYMV] = SOFTGPU_KERNEL("cublas_symv", run_structured, structured_layout),
    [STRUCTURED_SYR] = SOFTGPU_KERNEL("cublas_syr", run_structured, structured_layout),
    [STRUCTURED_SYR2] = SOFTGPU_KERNEL("cublas_syr2", run_structured, structured_layout),
    [STRUCTURED_TRMV] = SOFTGPU_KERNEL("cublas_trmv", run_structured, structured_layout),
    [STRUCTURED_TRSV] = SOFTGPU_KERNEL("cublas_trsv", run_structured, structured_layout),
};

static int64_t
least_lda(const struct structured_call *call)
{
    switch (call->routine) {
    case STRUCTURED_GBMV:
    case STRUCTURED_SBMV:
    case STRUCTURED_TBMV:
    case STRUCTURED_TBSV:
        return call->kl + call->ku + 1;
    case STRUCTURED_SYMV:
    case STRUCTURED_SYR:
    case STRUCTURED_SYR2:
    case STRUCTURED_TRMV:
    case STRUCTURED_TRSV:
        return call->n > 1 ? call->n : 1;
    default: /* packed */
        return 0;
    }
}

static cublasStatus_t
check_structured(const struct cublasContext *handle, const struct structured_call *call)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    bool writes_y = call->routine <= STRUCTURED_SYMV, takes_alpha = call->routine <= STRUCTURED_SYR2;
    bool takes_y = writes_y || call->routine == STRUCTURED_SPR2 || call->routine == STRUCTURED_SYR2;
    if ((call->uplo != CUBLAS_FILL_MODE_LOWER && call->uplo != CUBLAS_FILL_MODE_UPPER) ||
        (call->op != CUBLAS_OP_N && call->op != CUBLAS_OP_T && call->op != CUBLAS_OP_C) ||
        (call->diag != CUBLAS_DIAG_NON_UNIT && call->diag != CUBLAS_DIAG_UNIT) || call->m < 0 || call->n < 0 ||
        call->kl < 0 || call->ku < 0 || call->lda < least_lda(call) || call->incx == 0 ||
        (takes_y && call->incy == 0) || (takes_alpha && !call->alpha) || (writes_y && !call->beta))
        return CUBLAS_STATUS_INVALID_VALUE;
    const int64_t sizes[] = {call->m, call->n, call->lda, call->incx, call->incy};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        if (sizes[i] > INT_MAX || sizes[i] < -INT_MAX) {
            static _Atomic bool said;
            softgpu_line_unsupported("a matrix or a stride of 2^31 or more", &said);
            return CUBLAS_STATUS_NOT_SUPPORTED;
        }
    }
    bool is_nothing = call->n == 0 || (call->routine == STRUCTURED_GBMV && call->m == 0);
    if (!is_nothing && (!call->a || !call->x || (takes_y && !call->y)))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
structured(struct cublasContext *handle, const struct structured_call *call)
{
    cublasStatus_t status = check_structured(handle, call);
    if (status != CUBLAS_STATUS_SUCCESS || call->n == 0 || (call->routine == STRUCTURED_GBMV && call->m == 0))
        return status;
    struct scalar alpha = scalar_take(handle, call->alpha, call->type);
    struct scalar beta = scalar_take(handle, call->beta, call->type);
    struct structured_parameters parameters = {
        .routine = (int32_t)call->routine,
        .type = (int32_t)call->type,
        .uplo = call->uplo == CUBLAS_FILL_MODE_LOWER ? CblasLower : CblasUpper,
        .op = call->op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans,
        .diag = call->diag == CUBLAS_DIAG_UNIT ? CblasUnit : CblasNonUnit,
        .m = call->m,
        .n = call->n,
        .kl = call->kl,
        .ku = call->ku,
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

#define COMMON(which, cuda_type, matrix) \
    .routine = which, .type = cuda_type, .n = n, .incx = incx, .a = (void *)matrix, .x = (void *)x

#define WITH_Y .incy = incy, .alpha = alpha, .y = (void *)y

#define DEFINE_ROUTINES(letter, real, cuda_type, integer, suffix)                                                      \
    cublasStatus_t cublas##letter##gbmv##suffix(cublasHandle_t handle, cublasOperation_t trans, integer m, integer n,  \
                                                integer kl, integer ku, const real *alpha, const real *A, integer lda, \
                                                const real *x, integer incx, const real *beta, real *y, integer incy)  \
    {                                                                                                                  \
        struct structured_call call = {COMMON(STRUCTURED_GBMV, cuda_type, A),                                          \
                                       WITH_Y,                                                                         \
                                       .op = trans,                                                                    \
                                       .m = m,                                                                         \
                                       .kl = kl,                                                                       \
                                       .ku = ku,                                                                       \
                                       .lda = lda,                                                                     \
                                       .beta = beta};                                                                  \
        return structured(handle, &call);                                                                              \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##sbmv##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n, integer k,    \
                                                const real *alpha, const real *A, integer lda, const real *x,          \
                                                integer incx, const real *beta, real *y, integer incy)                 \
    {                                                                                                                  \
        struct structured_call call = {                                                                                \
            COMMON(STRUCTURED_SBMV, cuda_type, A), WITH_Y, .uplo = uplo, .kl = k, .lda = lda, .beta = beta};           \
        return structured(handle, &call);                                                                              \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##spmv##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,               \
                                                const real *alpha, const real *AP, const real *x, integer incx,        \
                                                const real *beta, real *y, integer incy)                               \
    {                                                                                                                  \
        struct structured_call call = {COMMON(STRUCTURED_SPMV, cuda_type, AP), WITH_Y, .uplo = uplo, .beta = beta};    \
        return structured(handle, &call);                                                                              \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##symv##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,               \
                                                const real *alpha, const real *A, integer lda, const real *x,          \
                                                integer incx, const real *beta, real *y, integer incy)                 \
    {                                                                                                                  \
        struct structured_call call = {COMMON(STRUCTURED_SYMV, cuda_type, A), WITH_Y, .uplo = uplo, .lda = lda,        \
                                       .beta = beta};                                                                  \
        return structured(handle, &call);                                                                              \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##syr##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,                \
                                               const real *alpha, const real *x, integer incx, real *A, integer lda)   \
    {                                                                                                                  \
        struct structured_call call = {COMMON(STRUCTURED_SYR, cuda_type, A), .uplo = uplo, .lda = lda,                 \
                                       .alpha = alpha};                                                                \
        return structured(handle, &call);                                                                              \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##syr2##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,               \
                                                const real *alpha, const real *x, integer incx, const real *y,         \
                                                integer incy, real *A, integer lda)                                    \
    {                                                                                                                  \
        struct structured_call call = {COMMON(STRUCTURED_SYR2, cuda_type, A), WITH_Y, .uplo = uplo, .lda = lda};       \
        return structured(handle, &call);                                                                              \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##spr##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,                \
                                               const real *alpha, const real *x, integer incx, real *AP)               \
    {                                                                                                                  \
        struct structured_call call = {COMMON(STRUCTURED_SPR, cuda_type, AP), .uplo = uplo, .alpha = alpha};           \
        return structured(handle, &call);                                                                              \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##spr2##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,               \
                                                const real *alpha, const real *x, integer incx, const real *y,         \
                                                integer incy, real *AP)                                                \
    {                                                                                                                  \
        struct structured_call call = {COMMON(STRUCTURED_SPR2, cuda_type, AP), WITH_Y, .uplo = uplo};                  \
        return structured(handle, &call);                                                                              \
    }

#define DEFINE_BANDED(name, which, real, cuda_type, integer)                                                          \
    cublasStatus_t name(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, cublasDiagType_t diag, \
                        integer n, integer k, const real *A, integer lda, real *x, integer incx)                      \
    {                                                                                                                 \
        struct structured_call call = {                                                                               \
            COMMON(which, cuda_type, A), .uplo = uplo, .op = trans, .diag = diag, .kl = k, .lda = lda};               \
        return structured(handle, &call);                                                                             \
    }

#define DEFINE_TRIANGLE(name, which, real, cuda_type, integer)                                                        \
    cublasStatus_t name(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, cublasDiagType_t diag, \
                        integer n, const real *A, integer lda, real *x, integer incx)                                 \
    {                                                                                                                 \
        struct structured_call call = {COMMON(which, cuda_type, A), .uplo = uplo, .op = trans, .diag = diag,          \
                                       .lda = lda};                                                                   \
        return structured(handle, &call);                                                                             \
    }

#define DEFINE_PACKED(name, which, real, cuda_type, integer)                                                          \
    cublasStatus_t name(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, cublasDiagType_t diag, \
                        integer n, const real *AP, real *x, integer incx)                                             \
    {                                                                                                                 \
        struct structured_call call = {COMMON(which, cuda_type, AP), .uplo = uplo, .op = trans, .diag = diag};        \
        return structured(handle, &call);                                                                             \
    }

#define DEFINE_FAMILY(letter, real, cuda_type, integer, suffix)                              \
    DEFINE_ROUTINES(letter, real, cuda_type, integer, suffix)                                \
    DEFINE_BANDED(cublas##letter##tbmv##suffix, STRUCTURED_TBMV, real, cuda_type, integer)   \
    DEFINE_BANDED(cublas##letter##tbsv##suffix, STRUCTURED_TBSV, real, cuda_type, integer)   \
    DEFINE_TRIANGLE(cublas##letter##trmv##suffix, STRUCTURED_TRMV, real, cuda_type, integer) \
    DEFINE_TRIANGLE(cublas##letter##trsv##suffix, STRUCTURED_TRSV, real, cuda_type, integer) \
    DEFINE_PACKED(cublas##letter##tpmv##suffix, STRUCTURED_TPMV, real, cuda_type, integer)   \
    DEFINE_PACKED(cublas##letter##tpsv##suffix, STRUCTURED_TPSV, real, cuda_type, integer)

DEFINE_FAMILY(S, float, CUDA_R_32F, int, _v2)
DEFINE_FAMILY(D, double, CUDA_R_64F, int, _v2)
DEFINE_FAMILY(S, float, CUDA_R_32F, int64_t, _v2_64)
DEFINE_FAMILY(D, double, CUDA_R_64F, int64_t, _v2_64)

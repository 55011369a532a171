/*
 * level2_packed.c - the matrix-vector routines of cuBLAS for banded and packed matrices, for float and double: gbmv,
 * sbmv, spmv, spr, spr2, tbmv, tbsv, tpmv, tpsv.
 */
#include "cublas/context.h"

#include <cblas.h>
#include <limits.h>

enum packed_routine {
    PACKED_GBMV, /* y = alpha op(A) x + beta y, A m x n with kl diagonals below and ku above its own */
    PACKED_SBMV, /* the same for a symmetric A with k diagonals beside its own */
    PACKED_SPMV, /* the same for a symmetric A of which one triangle lies packed */
    PACKED_SPR,  /* A += alpha x x' */
    PACKED_SPR2, /* A += alpha (x y' + y x') */
    PACKED_TBMV, /* x = op(A) x, A triangular, banded */
    PACKED_TBSV, /* op(A) x = b, b given in x */
    PACKED_TPMV,
    PACKED_TPSV,
    PACKED_COUNT
};

struct packed_call {
    enum packed_routine routine;
    cudaDataType type; /* CUDA_R_32F or CUDA_R_64F */
    cublasFillMode_t uplo;
    cublasOperation_t op;
    cublasDiagType_t diag;
    int64_t m, n;   /* m of gbmv only */
    int64_t kl, ku; /* sbmv, tbmv and tbsv have their k in kl */
    int64_t lda;    /* of what is banded */
    int64_t incx, incy;
    const void *alpha, *beta;
    void *a, *x, *y; /* gbmv, sbmv and spmv write y, spr and spr2 A, the others x */
};

struct packed_parameters {
    int32_t routine, type;
    int32_t uplo, op, diag; /* as CBLAS has them */
    int64_t m, n, kl, ku, lda, incx, incy;
    double alpha, beta; /* where their pointers are NULL */
};

enum { ARG_A, ARG_X, ARG_Y, ARG_ALPHA, ARG_BETA, ARG_PARAMETERS };

static const struct softgpu_param packed_layout[] = {
    [ARG_A] = {0, 8},      [ARG_X] = {8, 8},     [ARG_Y] = {16, 8},
    [ARG_ALPHA] = {24, 8}, [ARG_BETA] = {32, 8}, [ARG_PARAMETERS] = {40, sizeof(struct packed_parameters)},
};

#define DEFINE_RUN(suffix, real, letter)                                                                          \
    /* With beta == 0, y may hold anything, and is not read. */                                                   \
    static real clear_##suffix(const struct packed_parameters *p, real beta, real *y)                             \
    {                                                                                                             \
        int64_t length = p->routine == PACKED_GBMV && p->op == CblasNoTrans ? p->m : p->n;                        \
        int64_t step = p->incy < 0 ? -p->incy : p->incy;                                                          \
        for (int64_t i = 0; i < length && beta == 0; ++i)                                                         \
            y[i * step] = 0;                                                                                      \
        return beta == 0 ? 1 : beta;                                                                              \
    }                                                                                                             \
    static void run_##suffix(const struct packed_parameters *p, real alpha, real beta, real *a, real *x, real *y) \
    {                                                                                                             \
        CBLAS_UPLO uplo = (CBLAS_UPLO)p->uplo;                                                                    \
        CBLAS_TRANSPOSE op = (CBLAS_TRANSPOSE)p->op;                                                              \
        CBLAS_DIAG diag = (CBLAS_DIAG)p->diag;                                                                    \
        int m = (int)p->m, n = (int)p->n, kl = (int)p->kl, ku = (int)p->ku, lda = (int)p->lda;                    \
        int incx = (int)p->incx, incy = (int)p->incy;                                                             \
        if (p->routine <= PACKED_SPMV)                                                                            \
            beta = clear_##suffix(p, beta, y);                                                                    \
        switch ((enum packed_routine)p->routine) {                                                                \
        case PACKED_GBMV:                                                                                         \
            cblas_##letter##gbmv(CblasColMajor, op, m, n, kl, ku, alpha, a, lda, x, incx, beta, y, incy);         \
            break;                                                                                                \
        case PACKED_SBMV:                                                                                         \
            cblas_##letter##sbmv(CblasColMajor, uplo, n, kl, alpha, a, lda, x, incx, beta, y, incy);              \
            break;                                                                                                \
        case PACKED_SPMV:                                                                                         \
            cblas_##letter##spmv(CblasColMajor, uplo, n, alpha, a, x, incx, beta, y, incy);                       \
            break;                                                                                                \
        case PACKED_SPR:                                                                                          \
            cblas_##letter##spr(CblasColMajor, uplo, n, alpha, x, incx, a);                                       \
            break;                                                                                                \
        case PACKED_SPR2:                                                                                         \
            cblas_##letter##spr2(CblasColMajor, uplo, n, alpha, x, incx, y, incy, a);                             \
            break;                                                                                                \
        case PACKED_TBMV:                                                                                         \
            cblas_##letter##tbmv(CblasColMajor, uplo, op, diag, n, kl, a, lda, x, incx);                          \
            break;                                                                                                \
        case PACKED_TBSV:                                                                                         \
            cblas_##letter##tbsv(CblasColMajor, uplo, op, diag, n, kl, a, lda, x, incx);                          \
            break;                                                                                                \
        case PACKED_TPMV:                                                                                         \
            cblas_##letter##tpmv(CblasColMajor, uplo, op, diag, n, a, x, incx);                                   \
            break;                                                                                                \
        default: /* PACKED_TPSV */                                                                                \
            cblas_##letter##tpsv(CblasColMajor, uplo, op, diag, n, a, x, incx);                                   \
            break;                                                                                                \
        }                                                                                                         \
    }

DEFINE_RUN(float, float, s)
DEFINE_RUN(double, double, d)

static void
run_packed(const struct softgpu_launch *launch)
{
    const struct packed_parameters *p = launch->args[ARG_PARAMETERS];
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

static struct softgpu_kernel kernels[PACKED_COUNT] = {
    [PACKED_GBMV] = SOFTGPU_KERNEL("cublas_gbmv", run_packed, packed_layout),
    [PACKED_SBMV] = SOFTGPU_KERNEL("cublas_sbmv", run_packed, packed_layout),
    [PACKED_SPMV] = SOFTGPU_KERNEL("cublas_spmv", run_packed, packed_layout),
    [PACKED_SPR] = SOFTGPU_KERNEL("cublas_spr", run_packed, packed_layout),
    [PACKED_SPR2] = SOFTGPU_KERNEL("cublas_spr2", run_packed, packed_layout),
    [PACKED_TBMV] = SOFTGPU_KERNEL("cublas_tbmv", run_packed, packed_layout),
    [PACKED_TBSV] = SOFTGPU_KERNEL("cublas_tbsv", run_packed, packed_layout),
    [PACKED_TPMV] = SOFTGPU_KERNEL("cublas_tpmv", run_packed, packed_layout),
    [PACKED_TPSV] = SOFTGPU_KERNEL("cublas_tpsv", run_packed, packed_layout),
};

static cublasStatus_t
check_packed(const struct cublasContext *handle, const struct packed_call *call)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    bool writes_y = call->routine <= PACKED_SPMV, takes_y = writes_y || call->routine == PACKED_SPR2;
    bool takes_alpha = call->routine <= PACKED_SPR2;
    bool is_banded = call->routine == PACKED_GBMV || call->routine == PACKED_SBMV || call->routine == PACKED_TBMV ||
                     call->routine == PACKED_TBSV;
    if ((call->uplo != CUBLAS_FILL_MODE_LOWER && call->uplo != CUBLAS_FILL_MODE_UPPER) ||
        (call->op != CUBLAS_OP_N && call->op != CUBLAS_OP_T && call->op != CUBLAS_OP_C) ||
        (call->diag != CUBLAS_DIAG_NON_UNIT && call->diag != CUBLAS_DIAG_UNIT) || call->m < 0 || call->n < 0 ||
        call->kl < 0 || call->ku < 0 || (is_banded && call->lda < call->kl + call->ku + 1) || call->incx == 0 ||
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
    bool is_nothing = call->n == 0 || (call->routine == PACKED_GBMV && call->m == 0);
    if (!is_nothing && (!call->a || !call->x || (takes_y && !call->y)))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
packed(struct cublasContext *handle, const struct packed_call *call)
{
    cublasStatus_t status = check_packed(handle, call);
    if (status != CUBLAS_STATUS_SUCCESS || call->n == 0 || (call->routine == PACKED_GBMV && call->m == 0))
        return status;
    struct scalar alpha = {NULL, 0.0}, beta = {NULL, 0.0};
    if (call->alpha)
        alpha = scalar_take(handle, call->alpha, call->type);
    if (call->beta)
        beta = scalar_take(handle, call->beta, call->type);
    struct packed_parameters parameters = {
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
        struct packed_call call = {COMMON(PACKED_GBMV, cuda_type, A),                                                  \
                                   WITH_Y,                                                                             \
                                   .op = trans,                                                                        \
                                   .m = m,                                                                             \
                                   .kl = kl,                                                                           \
                                   .ku = ku,                                                                           \
                                   .lda = lda,                                                                         \
                                   .beta = beta};                                                                      \
        return packed(handle, &call);                                                                                  \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##sbmv##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n, integer k,    \
                                                const real *alpha, const real *A, integer lda, const real *x,          \
                                                integer incx, const real *beta, real *y, integer incy)                 \
    {                                                                                                                  \
        struct packed_call call = {                                                                                    \
            COMMON(PACKED_SBMV, cuda_type, A), WITH_Y, .uplo = uplo, .kl = k, .lda = lda, .beta = beta};               \
        return packed(handle, &call);                                                                                  \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##spmv##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,               \
                                                const real *alpha, const real *AP, const real *x, integer incx,        \
                                                const real *beta, real *y, integer incy)                               \
    {                                                                                                                  \
        struct packed_call call = {COMMON(PACKED_SPMV, cuda_type, AP), WITH_Y, .uplo = uplo, .beta = beta};            \
        return packed(handle, &call);                                                                                  \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##spr##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,                \
                                               const real *alpha, const real *x, integer incx, real *AP)               \
    {                                                                                                                  \
        struct packed_call call = {COMMON(PACKED_SPR, cuda_type, AP), .uplo = uplo, .alpha = alpha};                   \
        return packed(handle, &call);                                                                                  \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##spr2##suffix(cublasHandle_t handle, cublasFillMode_t uplo, integer n,               \
                                                const real *alpha, const real *x, integer incx, const real *y,         \
                                                integer incy, real *AP)                                                \
    {                                                                                                                  \
        struct packed_call call = {COMMON(PACKED_SPR2, cuda_type, AP), WITH_Y, .uplo = uplo};                          \
        return packed(handle, &call);                                                                                  \
    }

#define DEFINE_BANDED(name, which, real, cuda_type, integer)                                                          \
    cublasStatus_t name(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, cublasDiagType_t diag, \
                        integer n, integer k, const real *A, integer lda, real *x, integer incx)                      \
    {                                                                                                                 \
        struct packed_call call = {                                                                                   \
            COMMON(which, cuda_type, A), .uplo = uplo, .op = trans, .diag = diag, .kl = k, .lda = lda};               \
        return packed(handle, &call);                                                                                 \
    }

#define DEFINE_PACKED(name, which, real, cuda_type, integer)                                                          \
    cublasStatus_t name(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, cublasDiagType_t diag, \
                        integer n, const real *AP, real *x, integer incx)                                             \
    {                                                                                                                 \
        struct packed_call call = {COMMON(which, cuda_type, AP), .uplo = uplo, .op = trans, .diag = diag};            \
        return packed(handle, &call);                                                                                 \
    }

#define DEFINE_FAMILY(letter, real, cuda_type, integer, suffix)                        \
    DEFINE_ROUTINES(letter, real, cuda_type, integer, suffix)                          \
    DEFINE_BANDED(cublas##letter##tbmv##suffix, PACKED_TBMV, real, cuda_type, integer) \
    DEFINE_BANDED(cublas##letter##tbsv##suffix, PACKED_TBSV, real, cuda_type, integer) \
    DEFINE_PACKED(cublas##letter##tpmv##suffix, PACKED_TPMV, real, cuda_type, integer) \
    DEFINE_PACKED(cublas##letter##tpsv##suffix, PACKED_TPSV, real, cuda_type, integer)

DEFINE_FAMILY(S, float, CUDA_R_32F, int, _v2)
DEFINE_FAMILY(D, double, CUDA_R_64F, int, _v2)
DEFINE_FAMILY(S, float, CUDA_R_32F, int64_t, _v2_64)
DEFINE_FAMILY(D, double, CUDA_R_64F, int64_t, _v2_64)

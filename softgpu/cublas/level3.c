/*
 * level3.c - the products, updates and solutions of cuBLAS with symmetric and triangular matrices, for float and
 * double: symm, syrk, syr2k, syrkx, trmm, trsm and trsmBatched; the general products are in gemm.c.
 *
 * All share one parameter block and one kernel function; each has a kernel of its own name, for traces. A triangle that
 * a routine does not use is neither read nor written.
 */
#include "cublas/context.h"

#include <cblas.h>
#include <limits.h>
#include <string.h>

enum structured_routine {
    STRUCTURED_SYMM,
    STRUCTURED_SYRK,
    STRUCTURED_SYR2K,
    STRUCTURED_SYRKX, /* a triangle of alpha op(A) op(B)' + beta C */
    STRUCTURED_TRMM,
    STRUCTURED_TRSM,
    STRUCTURED_TRSM_BATCHED,
    STRUCTURED_COUNT
};

/*
 * A call. Operands are named as in cuBLAS; the last one given is written: C, or of trsm B. `m` and `n` are C's sides
 * (of syrk and its like both n), or trsm's B's.
 */
struct structured_call {
    enum structured_routine routine;
    cudaDataType type; /* CUDA_R_32F or CUDA_R_64F */
    cublasSideMode_t side;
    cublasFillMode_t uplo;
    cublasOperation_t op;
    cublasDiagType_t diag;
    int64_t m, n, k;
    const void *alpha, *beta; /* symm, syrk and its like have a beta */
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;
    int64_t batch_count;
};

struct structured_parameters {
    int32_t routine, type;
    int32_t side, uplo, op, diag; /* as CBLAS has them */
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    int64_t batch_count;
    double alpha, beta; /* where their pointers are NULL */
};

enum { ARG_A, ARG_B, ARG_C, ARG_ALPHA, ARG_BETA, ARG_PARAMETERS };

static const struct softgpu_param structured_layout[] = {
    [ARG_A] = {0, 8},      [ARG_B] = {8, 8},     [ARG_C] = {16, 8},
    [ARG_ALPHA] = {24, 8}, [ARG_BETA] = {32, 8}, [ARG_PARAMETERS] = {40, sizeof(struct structured_parameters)},
};

#define DEFINE_RUN(suffix, real, letter)                                                                               \
    /* With beta == 0 what will be written may hold anything, and is not read. */                                      \
    static real clear_##suffix(const struct structured_parameters *p, real beta, real *c)                              \
    {                                                                                                                  \
        if (beta != 0)                                                                                                 \
            return beta;                                                                                               \
        bool is_triangle = p->routine != STRUCTURED_SYMM;                                                              \
        for (int64_t j = 0; j < p->n; ++j) {                                                                           \
            int64_t first = is_triangle && p->uplo == CblasLower ? j : 0;                                              \
            int64_t end = is_triangle && p->uplo == CblasUpper ? j + 1 : p->m;                                         \
            for (int64_t i = first; i < end; ++i)                                                                      \
                c[i + j * p->ldc] = 0;                                                                                 \
        }                                                                                                              \
        return 1;                                                                                                      \
    }                                                                                                                  \
    /* Column by column: the stored rows of op(A) times row j of op(B). */                                             \
    static void syrkx_##suffix(const struct structured_parameters *p, real alpha, const real *a, const real *b,        \
                               real beta, real *c)                                                                     \
    {                                                                                                                  \
        bool plain = p->op == CblasNoTrans;                                                                            \
        for (int64_t j = 0; j < p->n; ++j) {                                                                           \
            int64_t first = p->uplo == CblasLower ? j : 0, rows = p->uplo == CblasLower ? p->n - j : j + 1;            \
            for (int64_t i = first; i < first + rows; ++i) /* here: gemv leaves C alone where k is 0 */                \
                c[i + j * p->ldc] *= beta;                                                                             \
            cblas_##letter##gemv(CblasColMajor, plain ? CblasNoTrans : CblasTrans, (int)(plain ? rows : p->k),         \
                                 (int)(plain ? p->k : rows), alpha, plain ? a + first : a + first * p->lda,            \
                                 (int)p->lda, plain ? b + j : b + j * p->ldb, (int)(plain ? p->ldb : 1), 1,            \
                                 c + first + j * p->ldc, 1);                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    static void trsm_##suffix(const struct structured_parameters *p, real alpha, const real *a, real *b)               \
    {                                                                                                                  \
        cblas_##letter##trsm(CblasColMajor, (CBLAS_SIDE)p->side, (CBLAS_UPLO)p->uplo, (CBLAS_TRANSPOSE)p->op,          \
                             (CBLAS_DIAG)p->diag, (int)p->m, (int)p->n, alpha, a, (int)p->lda, b, (int)p->ldc);        \
    }                                                                                                                  \
    /* C = B first, then in place. */                                                                                  \
    static void trmm_##suffix(const struct structured_parameters *p, real alpha, const real *a, const real *b,         \
                              real *c)                                                                                 \
    {                                                                                                                  \
        for (int64_t j = 0; j < p->n && b != c; ++j)                                                                   \
            memcpy(c + j * p->ldc, b + j * p->ldb, (size_t)p->m * sizeof(real));                                       \
        cblas_##letter##trmm(CblasColMajor, (CBLAS_SIDE)p->side, (CBLAS_UPLO)p->uplo, (CBLAS_TRANSPOSE)p->op,          \
                             (CBLAS_DIAG)p->diag, (int)p->m, (int)p->n, alpha, a, (int)p->lda, c, (int)p->ldc);        \
    }                                                                                                                  \
    static void run_##suffix(const struct structured_parameters *p, real alpha, real beta, const void *a,              \
                             const void *b, void *c)                                                                   \
    {                                                                                                                  \
        int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc;      \
        CBLAS_UPLO uplo = (CBLAS_UPLO)p->uplo;                                                                         \
        CBLAS_TRANSPOSE op = (CBLAS_TRANSPOSE)p->op;                                                                   \
        switch ((enum structured_routine)p->routine) {                                                                 \
        case STRUCTURED_SYMM:                                                                                          \
            beta = clear_##suffix(p, beta, c);                                                                         \
            cblas_##letter##symm(CblasColMajor, (CBLAS_SIDE)p->side, uplo, m, n, alpha, a, lda, b, ldb, beta, c, ldc); \
            break;                                                                                                     \
        case STRUCTURED_SYRK:                                                                                          \
            beta = clear_##suffix(p, beta, c);                                                                         \
            cblas_##letter##syrk(CblasColMajor, uplo, op, n, k, alpha, a, lda, beta, c, ldc);                          \
            break;                                                                                                     \
        case STRUCTURED_SYR2K:                                                                                         \
            beta = clear_##suffix(p, beta, c);                                                                         \
            cblas_##letter##syr2k(CblasColMajor, uplo, op, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                 \
            break;                                                                                                     \
        case STRUCTURED_SYRKX:                                                                                         \
            syrkx_##suffix(p, alpha, a, b, clear_##suffix(p, beta, c), c);                                             \
            break;                                                                                                     \
        case STRUCTURED_TRMM:                                                                                          \
            trmm_##suffix(p, alpha, a, b, c);                                                                          \
            break;                                                                                                     \
        case STRUCTURED_TRSM:                                                                                          \
            trsm_##suffix(p, alpha, a, c);                                                                             \
            break;                                                                                                     \
        default: /* STRUCTURED_TRSM_BATCHED */                                                                         \
            for (int64_t i = 0; i < p->batch_count; ++i)                                                               \
                trsm_##suffix(p, alpha, ((const real *const *)a)[i], ((real *const *)c)[i]);                           \
            break;                                                                                                     \
        }                                                                                                              \
    }

DEFINE_RUN(float, float, s)
DEFINE_RUN(double, double, d)

static void
run_structured(const struct softgpu_launch *launch)
{
    const struct structured_parameters *p = launch->args[ARG_PARAMETERS];
    const void *a = *(const void *const *)launch->args[ARG_A], *b = *(const void *const *)launch->args[ARG_B];
    void *c = *(void *const *)launch->args[ARG_C];
    double alpha_value = scalar_value(launch, ARG_ALPHA, p->alpha, p->type);
    double beta_value = scalar_value(launch, ARG_BETA, p->beta, p->type);
    if (p->type == CUDA_R_32F)
        run_float(p, (float)alpha_value, (float)beta_value, a, b, c);
    else
        run_double(p, alpha_value, beta_value, a, b, c);
}

static struct softgpu_kernel kernels[STRUCTURED_COUNT] = {
    [STRUCTURED_SYMM] = SOFTGPU_KERNEL("cublas_symm", run_structured, structured_layout),
    [STRUCTURED_SYRK] = SOFTGPU_KERNEL("cublas_syrk", run_structured, structured_layout),
    [STRUCTURED_SYR2K] = SOFTGPU_KERNEL("cublas_syr2k", run_structured, structured_layout),
    [STRUCTURED_SYRKX] = SOFTGPU_KERNEL("cublas_syrkx", run_structured, structured_layout),
    [STRUCTURED_TRMM] = SOFTGPU_KERNEL("cublas_trmm", run_structured, structured_layout),
    [STRUCTURED_TRSM] = SOFTGPU_KERNEL("cublas_trsm", run_structured, structured_layout),
    [STRUCTURED_TRSM_BATCHED] = SOFTGPU_KERNEL("cublas_trsm_batched", run_structured, structured_layout),
};

static bool
is_ld(int64_t ld, int64_t rows)
{
    return ld >= (rows > 1 ? rows : 1);
}

/* How many rows A and B have as they lie in memory; 0 for a B that there is not. */
static void
stored_rows(const struct structured_call *call, int64_t *a_rows, int64_t *b_rows)
{
    bool multiplies = call->routine >= STRUCTURED_SYRK && call->routine <= STRUCTURED_SYRKX;
    *a_rows = multiplies                       ? (call->op == CUBLAS_OP_N ? call->n : call->k)
              : call->side == CUBLAS_SIDE_LEFT ? call->m
                                               : call->n;
    bool reads_b = call->routine == STRUCTURED_SYMM || call->routine == STRUCTURED_TRMM;
    *b_rows = multiplies ? (call->routine == STRUCTURED_SYRK ? 0 : *a_rows) : reads_b ? call->m : 0;
}

static cublasStatus_t
check_structured(const struct cublasContext *handle, const struct structured_call *call)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    int64_t a_rows, b_rows;
    stored_rows(call, &a_rows, &b_rows);
    bool has_beta = call->routine <= STRUCTURED_SYRKX;
    if ((call->side != CUBLAS_SIDE_LEFT && call->side != CUBLAS_SIDE_RIGHT) ||
        (call->uplo != CUBLAS_FILL_MODE_LOWER && call->uplo != CUBLAS_FILL_MODE_UPPER) ||
        (call->op != CUBLAS_OP_N && call->op != CUBLAS_OP_T && call->op != CUBLAS_OP_C) ||
        (call->diag != CUBLAS_DIAG_NON_UNIT && call->diag != CUBLAS_DIAG_UNIT) || call->m < 0 || call->n < 0 ||
        call->k < 0 || call->batch_count < 0 || !is_ld(call->lda, a_rows) ||
        (b_rows > 0 && !is_ld(call->ldb, b_rows)) || !is_ld(call->ldc, call->m) || !call->alpha ||
        (has_beta && !call->beta))
        return CUBLAS_STATUS_INVALID_VALUE;
    /* C may be B, if they lie alike. */
    if (call->routine == STRUCTURED_TRMM && call->b == call->c && call->ldb != call->ldc)
        return CUBLAS_STATUS_INVALID_VALUE;
    const int64_t sizes[] = {call->m, call->n, call->k, call->lda, call->ldb, call->ldc};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        if (sizes[i] > INT_MAX) {
            static _Atomic bool said;
            softgpu_line_unsupported("a matrix with a side of 2^31 or more", &said);
            return CUBLAS_STATUS_NOT_SUPPORTED;
        }
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
structured(struct cublasContext *handle, const struct structured_call *call)
{
    cublasStatus_t status = check_structured(handle, call);
    if (status != CUBLAS_STATUS_SUCCESS || call->m == 0 || call->n == 0 || call->batch_count == 0)
        return status;
    bool reads_b =
        call->routine == STRUCTURED_SYMM || call->routine == STRUCTURED_SYR2K || call->routine == STRUCTURED_TRMM;
    if (!call->c || (call->k > 0 && (!call->a || (reads_b && !call->b))))
        return CUBLAS_STATUS_INVALID_VALUE;
    struct scalar alpha = scalar_take(handle, call->alpha, call->type);
    struct scalar beta = scalar_take(handle, call->beta, call->type);
    struct structured_parameters parameters = {
        .routine = (int32_t)call->routine,
        .type = (int32_t)call->type,
        .side = call->side == CUBLAS_SIDE_LEFT ? CblasLeft : CblasRight,
        .uplo = call->uplo == CUBLAS_FILL_MODE_LOWER ? CblasLower : CblasUpper,
        .op = call->op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans,
        .diag = call->diag == CUBLAS_DIAG_UNIT ? CblasUnit : CblasNonUnit,
        .m = call->m,
        .n = call->n,
        .k = call->k,
        .lda = call->lda,
        .ldb = call->ldb,
        .ldc = call->ldc,
        .batch_count = call->batch_count,
        .alpha = alpha.value,
        .beta = beta.value,
    };
    const void *a = call->a, *b = call->b;
    void *c = call->c;
    void *args[] = {&a, &b, &c, &alpha.device, &beta.device, &parameters};
    return context_launch(handle, &kernels[call->routine], args);
}

/* ---- exported ---- */

/* What a routine has no use for has a value that is in order; `k` is not 0 where A is always read. */
#define CALL(given_routine, cuda_type, ...)                        \
    struct structured_call call = {.routine = given_routine,       \
                                   .type = cuda_type,              \
                                   .side = CUBLAS_SIDE_LEFT,       \
                                   .uplo = CUBLAS_FILL_MODE_LOWER, \
                                   .op = CUBLAS_OP_N,              \
                                   .diag = CUBLAS_DIAG_NON_UNIT,   \
                                   .k = 1,                         \
                                   .alpha = alpha,                 \
                                   .batch_count = 1};              \
    __VA_ARGS__                                                    \
    return structured(handle, &call)

#define SET_SYMMETRIC(sides_m, sides_n) \
    call.uplo = uplo;                   \
    call.m = sides_m;                   \
    call.n = sides_n;                   \
    call.beta = beta;                   \
    call.a = A;                         \
    call.lda = lda;                     \
    call.c = C;                         \
    call.ldc = ldc;

#define SET_TRIANGULAR(b_and_c) \
    call.side = side;           \
    call.uplo = uplo;           \
    call.op = trans;            \
    call.diag = diag;           \
    call.m = m;                 \
    call.n = n;                 \
    call.a = A;                 \
    call.lda = lda;             \
    b_and_c

#define DEFINE_SYMMETRIC(letter, real, cuda_type, integer, suffix)                                                     \
    cublasStatus_t cublas##letter##symm##suffix(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo,   \
                                                integer m, integer n, const real *alpha, const real *A, integer lda,   \
                                                const real *B, integer ldb, const real *beta, real *C, integer ldc)    \
    {                                                                                                                  \
        CALL(STRUCTURED_SYMM, cuda_type, SET_SYMMETRIC(m, n) call.side = side; call.b = B; call.ldb = ldb;);           \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##syrk##suffix(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, \
                                                integer n, integer k, const real *alpha, const real *A, integer lda,   \
                                                const real *beta, real *C, integer ldc)                                \
    {                                                                                                                  \
        CALL(STRUCTURED_SYRK, cuda_type, SET_SYMMETRIC(n, n) call.op = trans; call.k = k;);                            \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##syr2k##suffix(cublasHandle_t handle, cublasFillMode_t uplo,                         \
                                                 cublasOperation_t trans, integer n, integer k, const real *alpha,     \
                                                 const real *A, integer lda, const real *B, integer ldb,               \
                                                 const real *beta, real *C, integer ldc)                               \
    {                                                                                                                  \
        CALL(STRUCTURED_SYR2K, cuda_type, SET_SYMMETRIC(n, n) call.op = trans; call.k = k; call.b = B;                 \
             call.ldb = ldb;);                                                                                         \
    }

#define DEFINE_SYRKX(name, real, cuda_type, integer)                                                                 \
    cublasStatus_t name(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, integer n, integer k, \
                        const real *alpha, const real *A, integer lda, const real *B, integer ldb, const real *beta, \
                        real *C, integer ldc)                                                                        \
    {                                                                                                                \
        CALL(STRUCTURED_SYRKX, cuda_type, SET_SYMMETRIC(n, n) call.op = trans; call.k = k; call.b = B;               \
             call.ldb = ldb;);                                                                                       \
    }

#define DEFINE_TRIANGULAR(letter, real, cuda_type, integer, suffix, batched)                                           \
    cublasStatus_t cublas##letter##trmm##suffix(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo,   \
                                                cublasOperation_t trans, cublasDiagType_t diag, integer m, integer n,  \
                                                const real *alpha, const real *A, integer lda, const real *B,          \
                                                integer ldb, real *C, integer ldc)                                     \
    {                                                                                                                  \
        CALL(STRUCTURED_TRMM, cuda_type, SET_TRIANGULAR(call.b = B; call.ldb = ldb; call.c = C; call.ldc = ldc;));     \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##trsm##suffix(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo,   \
                                                cublasOperation_t trans, cublasDiagType_t diag, integer m, integer n,  \
                                                const real *alpha, const real *A, integer lda, real *B, integer ldb)   \
    {                                                                                                                  \
        CALL(STRUCTURED_TRSM, cuda_type, SET_TRIANGULAR(call.c = B; call.ldc = ldb;));                                 \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##trsm##batched(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo,  \
                                                 cublasOperation_t trans, cublasDiagType_t diag, integer m, integer n, \
                                                 const real *alpha, const real *const A[], integer lda,                \
                                                 real *const B[], integer ldb, integer batchCount)                     \
    {                                                                                                                  \
        CALL(STRUCTURED_TRSM_BATCHED, cuda_type,                                                                       \
             SET_TRIANGULAR(call.c = (void *)B; call.ldc = ldb; call.batch_count = batchCount;));                      \
    }

DEFINE_SYMMETRIC(S, float, CUDA_R_32F, int, _v2)
DEFINE_SYMMETRIC(D, double, CUDA_R_64F, int, _v2)
DEFINE_SYMMETRIC(S, float, CUDA_R_32F, int64_t, _v2_64)
DEFINE_SYMMETRIC(D, double, CUDA_R_64F, int64_t, _v2_64)
DEFINE_SYRKX(cublasSsyrkx, float, CUDA_R_32F, int)
DEFINE_SYRKX(cublasDsyrkx, double, CUDA_R_64F, int)
DEFINE_SYRKX(cublasSsyrkx_64, float, CUDA_R_32F, int64_t)
DEFINE_SYRKX(cublasDsyrkx_64, double, CUDA_R_64F, int64_t)
DEFINE_TRIANGULAR(S, float, CUDA_R_32F, int, _v2, Batched)
DEFINE_TRIANGULAR(D, double, CUDA_R_64F, int, _v2, Batched)
DEFINE_TRIANGULAR(S, float, CUDA_R_32F, int64_t, _v2_64, Batched_64)
DEFINE_TRIANGULAR(D, double, CUDA_R_64F, int64_t, _v2_64, Batched_64)

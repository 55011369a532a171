/*
 * level2_batched.c - batches of matrix-vector products (arrays of pointers, or strides), and dgmm, the product with a
 * diagonal matrix, for float and double.
 */
#include "cublas/context.h"

#include <cblas.h>
#include <limits.h>

/* y[i] = alpha op(A[i]) x[i] + beta y[i]. */
struct batch_call {
    cudaDataType type; /* CUDA_R_32F or CUDA_R_64F */
    cublasOperation_t op;
    int64_t m, n, lda, incx, incy;
    const void *alpha, *beta;
    const void *a, *x; /* matrices, or device arrays of pointers to them */
    void *y;
    int64_t stride_a, stride_x, stride_y; /* in elements */
    int64_t batch_count;
    bool has_pointer_arrays;
};

struct batch_parameters {
    int32_t type, transposes;
    int64_t m, n, lda, incx, incy;
    int64_t stride_a, stride_x, stride_y;
    int64_t batch_count;
    int64_t has_pointer_arrays;
    double alpha, beta; /* where their pointers are NULL */
};

enum { ARG_A, ARG_X, ARG_Y, ARG_ALPHA, ARG_BETA, ARG_PARAMETERS };

static const struct softgpu_param batch_layout[] = {
    [ARG_A] = {0, 8},      [ARG_X] = {8, 8},     [ARG_Y] = {16, 8},
    [ARG_ALPHA] = {24, 8}, [ARG_BETA] = {32, 8}, [ARG_PARAMETERS] = {40, sizeof(struct batch_parameters)},
};

#define DEFINE_RUN(suffix, real, letter)                                                                               \
    static void gemv_##suffix(const struct batch_parameters *p, real alpha, const real *a, const real *x, real beta,   \
                              real *y)                                                                                 \
    {                                                                                                                  \
        int64_t length = p->transposes ? p->n : p->m, step = p->incy < 0 ? -p->incy : p->incy;                         \
        for (int64_t i = 0; i < length && beta == 0; ++i) /* y may hold anything, and is not read */                   \
            y[i * step] = 0;                                                                                           \
        cblas_##letter##gemv(CblasColMajor, p->transposes ? CblasTrans : CblasNoTrans, (int)p->m, (int)p->n, alpha, a, \
                             (int)p->lda, x, (int)p->incx, beta == 0 ? 1 : beta, y, (int)p->incy);                     \
    }                                                                                                                  \
    static void run_##suffix(const struct batch_parameters *p, real alpha, real beta, const void *a, const void *x,    \
                             void *y)                                                                                  \
    {                                                                                                                  \
        for (int64_t i = 0; i < p->batch_count; ++i) {                                                                 \
            if (p->has_pointer_arrays)                                                                                 \
                gemv_##suffix(p, alpha, ((const real *const *)a)[i], ((const real *const *)x)[i], beta,                \
                              ((real *const *)y)[i]);                                                                  \
            else                                                                                                       \
                gemv_##suffix(p, alpha, (const real *)a + i * p->stride_a, (const real *)x + i * p->stride_x, beta,    \
                              (real *)y + i * p->stride_y);                                                            \
        }                                                                                                              \
    }

DEFINE_RUN(float, float, s)
DEFINE_RUN(double, double, d)

static void
run_batch(const struct softgpu_launch *launch)
{
    const struct batch_parameters *p = launch->args[ARG_PARAMETERS];
    const void *a = *(const void *const *)launch->args[ARG_A], *x = *(const void *const *)launch->args[ARG_X];
    void *y = *(void *const *)launch->args[ARG_Y];
    double alpha_value = scalar_value(launch, ARG_ALPHA, p->alpha, p->type);
    double beta_value = scalar_value(launch, ARG_BETA, p->beta, p->type);
    if (p->type == CUDA_R_32F)
        run_float(p, (float)alpha_value, (float)beta_value, a, x, y);
    else
        run_double(p, alpha_value, beta_value, a, x, y);
}

static struct softgpu_kernel strided_kernel = SOFTGPU_KERNEL("cublas_gemv_strided_batched", run_batch, batch_layout);
static struct softgpu_kernel pointers_kernel = SOFTGPU_KERNEL("cublas_gemv_batched", run_batch, batch_layout);

static bool
fits_blas(int64_t value)
{
    return value >= -INT_MAX && value <= INT_MAX;
}

static cublasStatus_t
refuse_size(void)
{
    static _Atomic bool said;
    softgpu_line_unsupported("a matrix or a stride of 2^31 or more", &said);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t
batch(struct cublasContext *handle, const struct batch_call *call)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if ((call->op != CUBLAS_OP_N && call->op != CUBLAS_OP_T && call->op != CUBLAS_OP_C) || call->m < 0 || call->n < 0 ||
        call->batch_count < 0 || call->lda < (call->m > 1 ? call->m : 1) || call->incx == 0 || call->incy == 0 ||
        !call->alpha || !call->beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!fits_blas(call->m) || !fits_blas(call->n) || !fits_blas(call->lda) || !fits_blas(call->incx) ||
        !fits_blas(call->incy))
        return refuse_size();
    if (call->m == 0 || call->n == 0 || call->batch_count == 0)
        return CUBLAS_STATUS_SUCCESS;
    if (!call->a || !call->x || !call->y)
        return CUBLAS_STATUS_INVALID_VALUE;
    struct scalar alpha = scalar_take(handle, call->alpha, call->type);
    struct scalar beta = scalar_take(handle, call->beta, call->type);
    struct batch_parameters parameters = {
        .type = (int32_t)call->type,
        .transposes = call->op != CUBLAS_OP_N,
        .m = call->m,
        .n = call->n,
        .lda = call->lda,
        .incx = call->incx,
        .incy = call->incy,
        .stride_a = call->stride_a,
        .stride_x = call->stride_x,
        .stride_y = call->stride_y,
        .batch_count = call->batch_count,
        .has_pointer_arrays = call->has_pointer_arrays,
        .alpha = alpha.value,
        .beta = beta.value,
    };
    const void *a = call->a, *x = call->x;
    void *y = call->y;
    void *args[] = {&a, &x, &y, &alpha.device, &beta.device, &parameters};
    return context_launch(handle, call->has_pointer_arrays ? &pointers_kernel : &strided_kernel, args);
}

/* ---- dgmm: C = diag(x) A or A diag(x) ---- */

struct diagonal_parameters {
    int32_t type, is_left;
    int64_t m, n, lda, incx, ldc;
};

enum { DIAGONAL_A, DIAGONAL_X, DIAGONAL_C, DIAGONAL_PARAMETERS };

static const struct softgpu_param diagonal_layout[] = {
    [DIAGONAL_A] = {0, 8},
    [DIAGONAL_X] = {8, 8},
    [DIAGONAL_C] = {16, 8},
    [DIAGONAL_PARAMETERS] = {24, sizeof(struct diagonal_parameters)},
};

#define SCALE(real)                                                                                          \
    do {                                                                                                     \
        const real *from = a, *factors = x;                                                                  \
        real *to = c;                                                                                        \
        int64_t length = p->is_left ? p->m : p->n, first = p->incx < 0 ? (1 - length) * p->incx : 0;         \
        for (int64_t j = 0; j < p->n; ++j) {                                                                 \
            for (int64_t i = 0; i < p->m; ++i)                                                               \
                to[i + j * p->ldc] = from[i + j * p->lda] * factors[first + (p->is_left ? i : j) * p->incx]; \
        }                                                                                                    \
    } while (0)

static void
run_diagonal(const struct softgpu_launch *launch)
{
    const struct diagonal_parameters *p = launch->args[DIAGONAL_PARAMETERS];
    const void *a = *(const void *const *)launch->args[DIAGONAL_A];
    const void *x = *(const void *const *)launch->args[DIAGONAL_X];
    void *c = *(void *const *)launch->args[DIAGONAL_C];
    if (p->type == CUDA_R_32F)
        SCALE(float);
    else
        SCALE(double);
}

static struct softgpu_kernel diagonal_kernel = SOFTGPU_KERNEL("cublas_dgmm", run_diagonal, diagonal_layout);

static cublasStatus_t
diagonal(struct cublasContext *handle, cudaDataType type, cublasSideMode_t mode, int64_t m, int64_t n, const void *a,
         int64_t lda, const void *x, int64_t incx, void *c, int64_t ldc)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    int64_t rows = m > 1 ? m : 1;
    if ((mode != CUBLAS_SIDE_LEFT && mode != CUBLAS_SIDE_RIGHT) || m < 0 || n < 0 || lda < rows || ldc < rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0)
        return CUBLAS_STATUS_SUCCESS;
    if (!a || !x || !c)
        return CUBLAS_STATUS_INVALID_VALUE;
    struct diagonal_parameters parameters = {(int32_t)type, mode == CUBLAS_SIDE_LEFT, m, n, lda, incx, ldc};
    void *args[] = {&a, &x, &c, &parameters};
    return context_launch(handle, &diagonal_kernel, args);
}

/* ---- exported ---- */

#define COMMON(cuda_type)                                                                                   \
    .type = cuda_type, .op = trans, .m = m, .n = n, .lda = lda, .incx = incx, .incy = incy, .alpha = alpha, \
    .beta = beta, .batch_count = batchCount

#define DEFINE_ROUTINES(letter, real, cuda_type, integer, suffix)                                                      \
    cublasStatus_t cublas##letter##gemvBatched##suffix(                                                                \
        cublasHandle_t handle, cublasOperation_t trans, integer m, integer n, const real *alpha,                       \
        const real *const Aarray[], integer lda, const real *const xarray[], integer incx, const real *beta,           \
        real *const yarray[], integer incy, integer batchCount)                                                        \
    {                                                                                                                  \
        struct batch_call call = {COMMON(cuda_type), .a = Aarray, .x = xarray, .y = (void *)yarray,                    \
                                  .has_pointer_arrays = true};                                                         \
        return batch(handle, &call);                                                                                   \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##gemvStridedBatched##suffix(                                                         \
        cublasHandle_t handle, cublasOperation_t trans, integer m, integer n, const real *alpha, const real *A,        \
        integer lda, long long int strideA, const real *x, integer incx, long long int stridex, const real *beta,      \
        real *y, integer incy, long long int stridey, integer batchCount)                                              \
    {                                                                                                                  \
        struct batch_call call = {                                                                                     \
            COMMON(cuda_type), .a = A, .x = x, .y = y, .stride_a = strideA, .stride_x = stridex, .stride_y = stridey}; \
        return batch(handle, &call);                                                                                   \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##dgmm##suffix(cublasHandle_t handle, cublasSideMode_t mode, integer m, integer n,    \
                                                const real *A, integer lda, const real *x, integer incx, real *C,      \
                                                integer ldc)                                                           \
    {                                                                                                                  \
        return diagonal(handle, cuda_type, mode, m, n, A, lda, x, incx, C, ldc);                                       \
    }

DEFINE_ROUTINES(S, float, CUDA_R_32F, int, )
DEFINE_ROUTINES(D, double, CUDA_R_64F, int, )
DEFINE_ROUTINES(S, float, CUDA_R_32F, int64_t, _64)
DEFINE_ROUTINES(D, double, CUDA_R_64F, int64_t, _64)

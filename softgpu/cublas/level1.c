/*
 * level1.c - vector routines of cuBLAS for float and double: axpy, scal, copy, swap, rot, dot, nrm2,
 * asum, and the places of the largest and the smallest element.
 *
 * All of them share one parameter block and one kernel function; each has a kernel of its own name, for traces.
 */
#include "cublas/context.h"

#include <cblas.h>
#include <limits.h>
#include <math.h>

enum vector_routine {
    VECTOR_AXPY,
    VECTOR_SCAL,
    VECTOR_COPY,
    VECTOR_SWAP,
    VECTOR_ROT,
    VECTOR_DOT,
    VECTOR_NRM2,
    VECTOR_ASUM,
    VECTOR_AMAX,
    VECTOR_AMIN,
    VECTOR_COUNT
};

/* A call; what a routine has no use for is NULL or 0. */
struct vector_call {
    enum vector_routine routine;
    cudaDataType type; /* CUDA_R_32F or CUDA_R_64F */
    int64_t n, incx, incy;
    const void *alpha; /* of rot the cosine */
    void *x, *y;       /* only some routines write to them */
    void *result;
    const void *sine;       /* of rot */
    bool has_64_bit_result; /* of amax and amin: int64_t, not int */
};

struct vector_parameters {
    int32_t routine;
    int32_t type;
    int64_t n, incx, incy;
    int64_t has_64_bit_result;
    double alpha, sine; /* where their pointers are NULL */
    int64_t cut;        /* softgpu_cut(), of a sum; then `partial` gets the sum of what is after it, if not NULL */
    void *partial;
};

enum { ARG_X, ARG_Y, ARG_RESULT, ARG_ALPHA, ARG_SINE, ARG_PARAMETERS };

static const struct softgpu_param vector_layout[] = {
    [ARG_X] = {0, 8},      [ARG_Y] = {8, 8},     [ARG_RESULT] = {16, 8},
    [ARG_ALPHA] = {24, 8}, [ARG_SINE] = {32, 8}, [ARG_PARAMETERS] = {40, sizeof(struct vector_parameters)},
};

/* Like BLAS, nothing for a stride that is not positive. Not OpenBLAS's: that one turns a NaN times zero into zero. */
#define DEFINE_SCALE(name, real)                                   \
    static void name(int64_t n, real alpha, real *x, int64_t incx) \
    {                                                              \
        if (incx <= 0)                                             \
            return;                                                \
        for (int64_t i = 0; i < n; ++i)                            \
            x[i * incx] *= alpha;                                  \
    }

DEFINE_SCALE(scale_float, float)
DEFINE_SCALE(scale_double, double)

/* The place, counted from one, of the first element of largest or smallest magnitude; 0 if there is no element. */
#define DEFINE_FIND(name, real, magnitude)                                           \
    static int64_t name(int64_t n, const real *x, int64_t incx, bool wants_smallest) \
    {                                                                                \
        if (n <= 0 || incx <= 0)                                                     \
            return 0;                                                                \
        int64_t found = 0;                                                           \
        for (int64_t i = 1; i < n; ++i) {                                            \
            real here = magnitude(x[i * incx]), best = magnitude(x[found * incx]);   \
            if (wants_smallest ? here < best : here > best)                          \
                found = i;                                                           \
        }                                                                            \
        return found + 1;                                                            \
    }

DEFINE_FIND(find_float, float, fabsf)
DEFINE_FIND(find_double, double, fabs)

static void
store_place(const struct vector_parameters *p, int64_t place, void *result)
{
    if (p->has_64_bit_result)
        *(int64_t *)result = place;
    else
        *(int *)result = (int)place;
}

/* dot, nrm2 or asum of the first n elements; and of all, from those of two parts. */
#define DEFINE_SUM(real, letter, hypotenuse)                                                           \
    static real sum_##real(const struct vector_parameters *p, int n, const real *x, const real *y)     \
    {                                                                                                  \
        int incx = (int)p->incx, incy = (int)p->incy;                                                  \
        if (n <= 0 || (incx <= 0 && p->routine != VECTOR_DOT))                                         \
            return 0;                                                                                  \
        return p->routine == VECTOR_DOT    ? cblas_##letter##dot(n, x, incx, y, incy)                  \
               : p->routine == VECTOR_NRM2 ? cblas_##letter##nrm2(n, x, incx)                          \
                                           : cblas_##letter##asum(n, x, incx);                         \
    }                                                                                                  \
    static real join_##real(const struct vector_parameters *p, real one, real other)                   \
    {                                                                                                  \
        return p->cut == 0 ? other : p->routine == VECTOR_NRM2 ? hypotenuse(one, other) : one + other; \
    }

DEFINE_SUM(float, s, hypotf)
DEFINE_SUM(double, d, hypot)

#define DEFINE_RUN(name, real, letter, scale, find)                                                            \
    static void name(const struct vector_parameters *p, real alpha, real sine, real *x, real *y, real *result) \
    {                                                                                                          \
        int n = (int)p->n, incx = (int)p->incx, incy = (int)p->incy;                                           \
        switch ((enum vector_routine)p->routine) {                                                             \
        case VECTOR_AXPY:                                                                                      \
            cblas_##letter##axpy(n, alpha, x, incx, y, incy);                                                  \
            break;                                                                                             \
        case VECTOR_SCAL:                                                                                      \
            scale(n, alpha, x, incx);                                                                          \
            break;                                                                                             \
        case VECTOR_COPY:                                                                                      \
            cblas_##letter##copy(n, x, incx, y, incy);                                                         \
            break;                                                                                             \
        case VECTOR_SWAP:                                                                                      \
            cblas_##letter##swap(n, x, incx, y, incy);                                                         \
            break;                                                                                             \
        case VECTOR_ROT:                                                                                       \
            cblas_##letter##rot(n, x, incx, y, incy, alpha, sine);                                             \
            break;                                                                                             \
        case VECTOR_AMAX:                                                                                      \
        case VECTOR_AMIN:                                                                                      \
            store_place(p, find(p->n, x, p->incx, p->routine == VECTOR_AMIN), result);                         \
            break;                                                                                             \
        default: /* VECTOR_DOT, VECTOR_NRM2, VECTOR_ASUM */                                                    \
            *result = 0;                                                                                       \
            if (p->cut > 0 && incx > 0 && incy >= 0) {                                                         \
                *result = sum_##real(p, n - (int)p->cut, x + p->cut * incx, y ? y + p->cut * incy : y);        \
                if (p->partial)                                                                                \
                    *(real *)p->partial = *result;                                                             \
                n = (int)p->cut;                                                                               \
            }                                                                                                  \
            *result = join_##real(p, *result, sum_##real(p, n, x, y));                                         \
            break;                                                                                             \
        }                                                                                                      \
    }

DEFINE_RUN(run_float, float, s, scale_float, find_float)
DEFINE_RUN(run_double, double, d, scale_double, find_double)

static void
run_vector(const struct softgpu_launch *launch)
{
    const struct vector_parameters *p = launch->args[ARG_PARAMETERS];
    void *x = *(void *const *)launch->args[ARG_X], *y = *(void *const *)launch->args[ARG_Y];
    void *result = *(void *const *)launch->args[ARG_RESULT];
    double alpha_value = scalar_value(launch, ARG_ALPHA, p->alpha, p->type);
    double sine_value = scalar_value(launch, ARG_SINE, p->sine, p->type);
    if (p->type == CUDA_R_32F)
        run_float(p, (float)alpha_value, (float)sine_value, x, y, result);
    else
        run_double(p, alpha_value, sine_value, x, y, result);
}

static struct softgpu_kernel kernels[VECTOR_COUNT] = {
    [VECTOR_AXPY] = SOFTGPU_KERNEL("cublas_axpy", run_vector, vector_layout),
    [VECTOR_SCAL] = SOFTGPU_KERNEL("cublas_scal", run_vector, vector_layout),
    [VECTOR_COPY] = SOFTGPU_KERNEL("cublas_copy", run_vector, vector_layout),
    [VECTOR_SWAP] = SOFTGPU_KERNEL("cublas_swap", run_vector, vector_layout),
    [VECTOR_ROT] = SOFTGPU_KERNEL("cublas_rot", run_vector, vector_layout),
    [VECTOR_DOT] = SOFTGPU_KERNEL("cublas_dot", run_vector, vector_layout),
    [VECTOR_NRM2] = SOFTGPU_KERNEL("cublas_nrm2", run_vector, vector_layout),
    [VECTOR_ASUM] = SOFTGPU_KERNEL("cublas_asum", run_vector, vector_layout),
    [VECTOR_AMAX] = SOFTGPU_KERNEL("cublas_iamax", run_vector, vector_layout),
    [VECTOR_AMIN] = SOFTGPU_KERNEL("cublas_iamin", run_vector, vector_layout),
};

static bool
fits_blas(int64_t value)
{
    return value >= INT_MIN && value <= INT_MAX;
}

static cublasStatus_t
vector(struct cublasContext *handle, const struct vector_call *call)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    bool takes_alpha = call->routine == VECTOR_AXPY || call->routine == VECTOR_SCAL || call->routine == VECTOR_ROT;
    bool gives_result = call->routine >= VECTOR_DOT;
    bool takes_y = call->routine != VECTOR_SCAL && call->routine < VECTOR_NRM2;
    if ((takes_alpha && !call->alpha) || (call->routine == VECTOR_ROT && !call->sine) ||
        (gives_result && !call->result))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!fits_blas(call->n) || !fits_blas(call->incx) || !fits_blas(call->incy)) {
        static _Atomic bool said;
        softgpu_line_unsupported("a vector of 2^31 elements or more", &said);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (call->n <= 0 && !gives_result)
        return CUBLAS_STATUS_SUCCESS;
    if (call->n > 0 && (!call->x || (takes_y && !call->y)))
        return CUBLAS_STATUS_INVALID_VALUE;

    struct scalar alpha = scalar_take(handle, call->alpha, call->type);
    struct scalar sine = scalar_take(handle, call->sine, call->type);
    struct vector_parameters parameters = {.routine = (int32_t)call->routine,
                                           .type = (int32_t)call->type,
                                           .n = call->n,
                                           .incx = call->incx,
                                           .incy = call->incy,
                                           .has_64_bit_result = call->has_64_bit_result,
                                           .alpha = alpha.value,
                                           .sine = sine.value,
                                           .cut = softgpu_cut(call->routine, 0, call->n),
                                           .partial = context_partial(handle, sizeof(double))};
    void *x = call->x, *y = call->y, *result = call->result;
    void *args[] = {&x, &y, &result, &alpha.device, &sine.device, &parameters};
    if (gives_result)
        return context_launch_result(handle, &kernels[call->routine], args);
    return context_launch(handle, &kernels[call->routine], args);
}

/* ---- exported ---- */

#define DEFINE_PLACE(name, which, real, cuda_type, integer)                                             \
    cublasStatus_t name(cublasHandle_t handle, integer n, const real *x, integer incx, integer *result) \
    {                                                                                                   \
        struct vector_call call = {.routine = which,                                                    \
                                   .type = cuda_type,                                                   \
                                   .n = n,                                                              \
                                   .incx = incx,                                                        \
                                   .x = (void *)x,                                                      \
                                   .result = result,                                                    \
                                   .has_64_bit_result = sizeof(integer) == 8};                          \
        return vector(handle, &call);                                                                   \
    }

#define DEFINE_ROTATION(name, real, cuda_type, integer)                                                                \
    cublasStatus_t name(cublasHandle_t handle, integer n, real *x, integer incx, real *y, integer incy, const real *c, \
                        const real *s)                                                                                 \
    {                                                                                                                  \
        struct vector_call call = {.routine = VECTOR_ROT,                                                              \
                                   .type = cuda_type,                                                                  \
                                   .n = n,                                                                             \
                                   .incx = incx,                                                                       \
                                   .incy = incy,                                                                       \
                                   .alpha = c,                                                                         \
                                   .x = x,                                                                             \
                                   .y = y,                                                                             \
                                   .sine = s};                                                                         \
        return vector(handle, &call);                                                                                  \
    }

#define DEFINE_ROUTINES(letter, real, cuda_type, integer, suffix)                                                   \
    cublasStatus_t cublas##letter##axpy##suffix(cublasHandle_t handle, integer n, const real *alpha, const real *x, \
                                                integer incx, real *y, integer incy)                                \
    {                                                                                                               \
        struct vector_call call = {VECTOR_AXPY, cuda_type, n, incx, incy, alpha, (void *)x, y, NULL};               \
        return vector(handle, &call);                                                                               \
    }                                                                                                               \
    cublasStatus_t cublas##letter##scal##suffix(cublasHandle_t handle, integer n, const real *alpha, real *x,       \
                                                integer incx)                                                       \
    {                                                                                                               \
        struct vector_call call = {VECTOR_SCAL, cuda_type, n, incx, 0, alpha, x, NULL, NULL};                       \
        return vector(handle, &call);                                                                               \
    }                                                                                                               \
    cublasStatus_t cublas##letter##copy##suffix(cublasHandle_t handle, integer n, const real *x, integer incx,      \
                                                real *y, integer incy)                                              \
    {                                                                                                               \
        struct vector_call call = {VECTOR_COPY, cuda_type, n, incx, incy, NULL, (void *)x, y, NULL};                \
        return vector(handle, &call);                                                                               \
    }                                                                                                               \
    cublasStatus_t cublas##letter##swap##suffix(cublasHandle_t handle, integer n, real *x, integer incx, real *y,   \
                                                integer incy)                                                       \
    {                                                                                                               \
        struct vector_call call = {VECTOR_SWAP, cuda_type, n, incx, incy, NULL, x, y, NULL};                        \
        return vector(handle, &call);                                                                               \
    }                                                                                                               \
    cublasStatus_t cublas##letter##dot##suffix(cublasHandle_t handle, integer n, const real *x, integer incx,       \
                                               const real *y, integer incy, real *result)                           \
    {                                                                                                               \
        struct vector_call call = {VECTOR_DOT, cuda_type, n, incx, incy, NULL, (void *)x, (void *)y, result};       \
        return vector(handle, &call);                                                                               \
    }                                                                                                               \
    cublasStatus_t cublas##letter##nrm2##suffix(cublasHandle_t handle, integer n, const real *x, integer incx,      \
                                                real *result)                                                       \
    {                                                                                                               \
        struct vector_call call = {VECTOR_NRM2, cuda_type, n, incx, 0, NULL, (void *)x, NULL, result};              \
        return vector(handle, &call);                                                                               \
    }                                                                                                               \
    cublasStatus_t cublas##letter##asum##suffix(cublasHandle_t handle, integer n, const real *x, integer incx,      \
                                                real *result)                                                       \
    {                                                                                                               \
        struct vector_call call = {VECTOR_ASUM, cuda_type, n, incx, 0, NULL, (void *)x, NULL, result};              \
        return vector(handle, &call);                                                                               \
    }

DEFINE_ROUTINES(S, float, CUDA_R_32F, int, _v2)
DEFINE_ROUTINES(D, double, CUDA_R_64F, int, _v2)
DEFINE_ROUTINES(S, float, CUDA_R_32F, int64_t, _v2_64)
DEFINE_ROUTINES(D, double, CUDA_R_64F, int64_t, _v2_64)
DEFINE_PLACE(cublasIsamax_v2, VECTOR_AMAX, float, CUDA_R_32F, int)
DEFINE_PLACE(cublasIdamax_v2, VECTOR_AMAX, double, CUDA_R_64F, int)
DEFINE_PLACE(cublasIsamin_v2, VECTOR_AMIN, float, CUDA_R_32F, int)
DEFINE_PLACE(cublasIdamin_v2, VECTOR_AMIN, double, CUDA_R_64F, int)
DEFINE_PLACE(cublasIsamax_v2_64, VECTOR_AMAX, float, CUDA_R_32F, int64_t)
DEFINE_PLACE(cublasIdamax_v2_64, VECTOR_AMAX, double, CUDA_R_64F, int64_t)
DEFINE_PLACE(cublasIsamin_v2_64, VECTOR_AMIN, float, CUDA_R_32F, int64_t)
DEFINE_PLACE(cublasIdamin_v2_64, VECTOR_AMIN, double, CUDA_R_64F, int64_t)
DEFINE_ROTATION(cublasSrot_v2, float, CUDA_R_32F, int)
DEFINE_ROTATION(cublasDrot_v2, double, CUDA_R_64F, int)
DEFINE_ROTATION(cublasSrot_v2_64, float, CUDA_R_32F, int64_t)
DEFINE_ROTATION(cublasDrot_v2_64, double, CUDA_R_64F, int64_t)

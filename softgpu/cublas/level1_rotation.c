/*
 * level1_rotation.c - the rotations of cuBLAS that level1.c does not have, for float and double: rotg and rotmg, which
 * make a rotation from a point, and rotm, which applies a modified one.
 *
 * With host pointers rotg and rotmg are plain arithmetic on the host, done when the call returns; with device pointers
 * they are kernels like the rest.
 */
#include "cublas/context.h"

#include <cblas.h>
#include <limits.h>
#include <string.h>

enum rotation_routine { ROTATION_ROTG, ROTATION_ROTMG, ROTATION_ROTM, ROTATION_COUNT };

enum { POINTERS = 5, FACTORS = 5 };

/* The operands are, in the order of cuBLAS: rotg a, b, c, s; rotmg d1, d2, x1, y1, param; rotm x, y, param. */
struct rotation_parameters {
    int32_t routine, type;
    int64_t n, incx, incy;
    int64_t has_factors; /* rotm's param was read at the call */
    double factors[FACTORS];
};

static const struct softgpu_param rotation_layout[] = {
    {0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, sizeof(struct rotation_parameters)},
};

#define DEFINE_RUN(suffix, real, letter)                                                                      \
    static void run_##suffix(const struct rotation_parameters *p, void *const operand[POINTERS])              \
    {                                                                                                         \
        real factors[FACTORS];                                                                                \
        switch ((enum rotation_routine)p->routine) {                                                          \
        case ROTATION_ROTG:                                                                                   \
            cblas_##letter##rotg(operand[0], operand[1], operand[2], operand[3]);                             \
            break;                                                                                            \
        case ROTATION_ROTMG:                                                                                  \
            cblas_##letter##rotmg(operand[0], operand[1], operand[2], *(const real *)operand[3], operand[4]); \
            break;                                                                                            \
        default: /* ROTATION_ROTM */                                                                          \
            for (int i = 0; i < FACTORS; ++i)                                                                 \
                factors[i] = p->has_factors ? (real)p->factors[i] : ((const real *)operand[2])[i];            \
            cblas_##letter##rotm((int)p->n, operand[0], (int)p->incx, operand[1], (int)p->incy, factors);     \
            break;                                                                                            \
        }                                                                                                     \
    }

DEFINE_RUN(float, float, s)
DEFINE_RUN(double, double, d)

static void
run(const struct rotation_parameters *p, void *const operand[POINTERS])
{
    if (p->type == CUDA_R_32F)
        run_float(p, operand);
    else
        run_double(p, operand);
}

static void
run_rotation(const struct softgpu_launch *launch)
{
    void *operand[POINTERS];
    for (int i = 0; i < POINTERS; ++i)
        operand[i] = *(void *const *)launch->args[i];
    run(launch->args[POINTERS], operand);
}

static struct softgpu_kernel kernels[ROTATION_COUNT] = {
    [ROTATION_ROTG] = SOFTGPU_KERNEL("cublas_rotg", run_rotation, rotation_layout),
    [ROTATION_ROTMG] = SOFTGPU_KERNEL("cublas_rotmg", run_rotation, rotation_layout),
    [ROTATION_ROTM] = SOFTGPU_KERNEL("cublas_rotm", run_rotation, rotation_layout),
};

static cublasStatus_t
launch(const struct cublasContext *handle, struct rotation_parameters *parameters, void *operand[POINTERS])
{
    void *args[POINTERS + 1];
    for (int i = 0; i < POINTERS; ++i)
        args[i] = &operand[i];
    args[POINTERS] = parameters;
    return context_launch(handle, &kernels[parameters->routine], args);
}

/* rotg and rotmg: `count` operands, all of one place. */
static cublasStatus_t
make(struct cublasContext *handle, enum rotation_routine routine, cudaDataType type, void *operand[POINTERS], int count)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    for (int i = 0; i < count; ++i) {
        if (!operand[i])
            return CUBLAS_STATUS_INVALID_VALUE;
    }
    struct rotation_parameters parameters = {.routine = (int32_t)routine, .type = (int32_t)type};
    if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE)
        return launch(handle, &parameters, operand);
    run(&parameters, operand);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
apply(struct cublasContext *handle, cudaDataType type, int64_t n, void *x, int64_t incx, void *y, int64_t incy,
      const void *param)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!param || (n > 0 && (!x || !y)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (n > INT_MAX || incx > INT_MAX || incx < INT_MIN || incy > INT_MAX || incy < INT_MIN) {
        static _Atomic bool said;
        softgpu_line_unsupported("a vector of 2^31 elements or more", &said);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (n <= 0)
        return CUBLAS_STATUS_SUCCESS;
    struct rotation_parameters parameters = {
        .routine = ROTATION_ROTM, .type = (int32_t)type, .n = n, .incx = incx, .incy = incy};
    parameters.has_factors = handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
    for (int i = 0; i < FACTORS && parameters.has_factors; ++i)
        parameters.factors[i] = type == CUDA_R_32F ? (double)((const float *)param)[i] : ((const double *)param)[i];
    void *operand[POINTERS] = {x, y, parameters.has_factors ? NULL : (void *)param};
    return launch(handle, &parameters, operand);
}

/* ---- exported ---- */

#define DEFINE_ROTM(name, real, cuda_type, integer)                                                     \
    cublasStatus_t name(cublasHandle_t handle, integer n, real *x, integer incx, real *y, integer incy, \
                        const real *param)                                                              \
    {                                                                                                   \
        return apply(handle, cuda_type, n, x, incx, y, incy, param);                                    \
    }

#define DEFINE_MAKERS(letter, real, cuda_type)                                                                   \
    cublasStatus_t cublas##letter##rotg_v2(cublasHandle_t handle, real *a, real *b, real *c, real *s)            \
    {                                                                                                            \
        void *operand[POINTERS] = {a, b, c, s};                                                                  \
        return make(handle, ROTATION_ROTG, cuda_type, operand, 4);                                               \
    }                                                                                                            \
    cublasStatus_t cublas##letter##rotmg_v2(cublasHandle_t handle, real *d1, real *d2, real *x1, const real *y1, \
                                            real *param)                                                         \
    {                                                                                                            \
        void *operand[POINTERS] = {d1, d2, x1, (void *)y1, param};                                               \
        return make(handle, ROTATION_ROTMG, cuda_type, operand, 5);                                              \
    }

DEFINE_MAKERS(S, float, CUDA_R_32F)
DEFINE_MAKERS(D, double, CUDA_R_64F)
DEFINE_ROTM(cublasSrotm_v2, float, CUDA_R_32F, int)
DEFINE_ROTM(cublasDrotm_v2, double, CUDA_R_64F, int)
DEFINE_ROTM(cublasSrotm_v2_64, float, CUDA_R_32F, int64_t)
DEFINE_ROTM(cublasDrotm_v2_64, double, CUDA_R_64F, int64_t)

/*
 * epilogue.c - see epilogue.h.
 */
#include "cublaslt/epilogue.h"

#include "cublas/element.h"

#include <math.h>

#define SQRT_2_OVER_PI 0.79788456080286535588
#define GELU_CUBIC     0.044715

/* Element (i, j) of the bit mask, whose columns begin at bytes. */
static inline bool
mask_bit(const struct epilogue *e, int64_t i, int64_t j)
{
    return ((const uint8_t *)e->aux)[j * (e->aux_ld / 8) + i / 8] >> (i % 8) & 1;
}

static inline void
mask_set(const struct epilogue *e, int64_t i, int64_t j, bool is_positive)
{
    uint8_t *byte = (uint8_t *)e->aux + j * (e->aux_ld / 8) + i / 8;
    *byte = (uint8_t)((*byte & ~(1u << (i % 8))) | (unsigned)is_positive << (i % 8));
}

static inline double
load_double(const void *matrix, int64_t index, cudaDataType type)
{
    return type == CUDA_R_64F ? ((const double *)matrix)[index] : (double)load_element(matrix, index, type);
}

static inline void
store_double(void *matrix, int64_t index, cudaDataType type, double value)
{
    if (type == CUDA_R_64F)
        ((double *)matrix)[index] = value;
    else
        store_element(matrix, index, type, (float)value);
}

#define DEFINE_EPILOGUE(real, suffix, tanh_of, load, store)                                                    \
    static inline real gelu_##suffix(real x)                                                                   \
    {                                                                                                          \
        real inner = (real)SQRT_2_OVER_PI * (x + (real)GELU_CUBIC * x * x * x);                                \
        return (real)0.5 * x * (1 + tanh_of(inner));                                                           \
    }                                                                                                          \
    static inline real gelu_gradient_##suffix(real x)                                                          \
    {                                                                                                          \
        real t = tanh_of((real)SQRT_2_OVER_PI * (x + (real)GELU_CUBIC * x * x * x));                           \
        real slope = (real)SQRT_2_OVER_PI * (1 + 3 * (real)GELU_CUBIC * x * x);                                \
        return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * slope;                                      \
    }                                                                                                          \
    static void activate_##suffix(const struct epilogue *e, int64_t i0, int64_t j, int64_t rows, real *column) \
    {                                                                                                          \
        for (int64_t r = 0; r < rows; ++r) {                                                                   \
            int64_t i = i0 + r;                                                                                \
            real x = column[r];                                                                                \
            switch (e->activation) {                                                                           \
            case ACTIVATION_NONE:                                                                              \
                break;                                                                                         \
            case ACTIVATION_RELU: /* a NaN stays one */                                                        \
                if (e->aux)                                                                                    \
                    mask_set(e, i, j, !(x <= 0));                                                              \
                column[r] = x < 0 ? 0 : x;                                                                     \
                break;                                                                                         \
            case ACTIVATION_GELU:                                                                              \
                if (e->aux)                                                                                    \
                    store(e->aux, i + j * e->aux_ld, e->type, x);                                              \
                column[r] = gelu_##suffix(x);                                                                  \
                break;                                                                                         \
            case ACTIVATION_RELU_GRADIENT:                                                                     \
                column[r] = mask_bit(e, i, j) ? x : 0;                                                         \
                break;                                                                                         \
            case ACTIVATION_GELU_GRADIENT:                                                                     \
                column[r] = x * gelu_gradient_##suffix((real)load(e->aux, i + j * e->aux_ld, e->type));        \
                break;                                                                                         \
            }                                                                                                  \
        }                                                                                                      \
    }                                                                                                          \
    void epilogue_##suffix(const struct epilogue *e, int64_t i0, int64_t j0, int64_t rows, int64_t columns,    \
                           real *values, int64_t ld)                                                           \
    {                                                                                                          \
        for (int64_t j = 0; j < columns; ++j) {                                                                \
            real *column = values + j * ld;                                                                    \
            for (int64_t r = 0; e->bias && r < rows; ++r)                                                      \
                column[r] += (real)load(e->bias, e->has_bias_by_column ? j0 + j : i0 + r, e->type);            \
            if (e->activation != ACTIVATION_NONE)                                                              \
                activate_##suffix(e, i0, j0 + j, rows, column);                                                \
        }                                                                                                      \
    }

DEFINE_EPILOGUE(float, float, tanhf, load_element, store_element)
DEFINE_EPILOGUE(double, double, tanh, load_double, store_double)

/* Blocks of rows, so that the sums fit on the stack and a matrix by columns is read along its columns. */
void
sum_rows(const void *matrix, cudaDataType type, bool is_transposed, int64_t rows, int64_t columns, int64_t ld,
         void *sums)
{
    enum { BLOCK = 256 };
    for (int64_t begin = 0; begin < rows; begin += BLOCK) {
        double sum[BLOCK] = {0};
        int64_t count = rows - begin < BLOCK ? rows - begin : BLOCK;
        if (is_transposed) {
            for (int64_t i = 0; i < count; ++i) {
                for (int64_t j = 0; j < columns; ++j)
                    sum[i] += load_double(matrix, j + (begin + i) * ld, type);
            }
        } else {
            for (int64_t j = 0; j < columns; ++j) {
                for (int64_t i = 0; i < count; ++i)
                    sum[i] += load_double(matrix, begin + i + j * ld, type);
            }
        }
        for (int64_t i = 0; i < count; ++i)
            store_double(sums, begin + i, type, sum[i]);
    }
}

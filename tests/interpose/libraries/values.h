/*
 * values.h - a value for each parameter that a call of cublas.def may have. The tables give all parameters of one
 * meaning the same name, so that one set of values serves every call: CALLS_VALUES(v) declares them as local variables.
 */
#ifndef TESTS_INTERPOSE_LIBRARIES_VALUES_H
#define TESTS_INTERPOSE_LIBRARIES_VALUES_H

#include <cublas_api.h>
#include <stdint.h>

struct values {
    cublasHandle_t handle;
    /* Memory: scalars, vectors, matrices. */
    void *alpha, *beta, *x, *y, *result, *c, *s, *param, *A, *B, *C, *AP, *a, *b, *d1, *d2, *x1, *y1, *P, *info,
        *devIpiv, *devInfoArray;
    /* Arrays of pointers to memory. */
    void *Aarray, *Barray, *Carray, *xarray, *yarray, *Ainv, *TauArray;
    int64_t n, m, k, kl, ku, lda, ldb, ldc, lda_inv, nrhs, incx, incy, batchCount, batchSize;
    int64_t strideA, strideB, strideC, stridex, stridey;
    cublasOperation_t trans, transa, transb, transc;
    cublasFillMode_t uplo;
    cublasDiagType_t diag;
    cublasSideMode_t side, mode;
    cudaDataType alphaType, xType, yType, executiontype, executionType, csType, paramType, resultType, Atype, Btype,
        Ctype, abType, d1Type, d2Type, x1Type, y1Type;
    cublasComputeType_t computeType;
    cublasGemmAlgo_t algo;
    int A_bias, B_bias, C_bias, C_mult, C_shift;
    /* Of products in groups, in host memory: of the width of integers that the call has. */
    const void *transa_array, *transb_array, *m_array, *n_array, *k_array, *lda_array, *ldb_array, *ldc_array,
        *group_size, *alpha_array, *beta_array;
    int64_t group_count;
};

/*
 * Random sizes, leading dimensions, increments and strides of either sign, transposes, sides: all of them such that a
 * matrix of VALUES_SIZE rows or columns, VALUES_BATCH times, fits half an area of the arena.
 */
enum { VALUES_SIZE = 6, VALUES_BATCH = 3 };
void values_choose_shape(struct values *v);

#define CALLS_VALUES(v)                        \
    VALUE(cublasHandle_t, handle, v)           \
    VALUE(void *, alpha, v)                    \
    VALUE(void *, beta, v)                     \
    VALUE(void *, x, v)                        \
    VALUE(void *, y, v)                        \
    VALUE(void *, result, v)                   \
    VALUE(void *, c, v)                        \
    VALUE(void *, s, v)                        \
    VALUE(void *, param, v)                    \
    VALUE(void *, A, v)                        \
    VALUE(void *, B, v)                        \
    VALUE(void *, C, v)                        \
    VALUE(void *, AP, v)                       \
    VALUE(void *, a, v)                        \
    VALUE(void *, b, v)                        \
    VALUE(void *, d1, v)                       \
    VALUE(void *, d2, v)                       \
    VALUE(void *, x1, v)                       \
    VALUE(void *, y1, v)                       \
    VALUE(void *, P, v)                        \
    VALUE(void *, info, v)                     \
    VALUE(void *, devIpiv, v)                  \
    VALUE(void *, devInfoArray, v)             \
    VALUE(void *, Aarray, v)                   \
    VALUE(void *, Barray, v)                   \
    VALUE(void *, Carray, v)                   \
    VALUE(void *, xarray, v)                   \
    VALUE(void *, yarray, v)                   \
    VALUE(void *, Ainv, v)                     \
    VALUE(void *, TauArray, v)                 \
    VALUE(int64_t, n, v)                       \
    VALUE(int64_t, m, v)                       \
    VALUE(int64_t, k, v)                       \
    VALUE(int64_t, kl, v)                      \
    VALUE(int64_t, ku, v)                      \
    VALUE(int64_t, lda, v)                     \
    VALUE(int64_t, ldb, v)                     \
    VALUE(int64_t, ldc, v)                     \
    VALUE(int64_t, lda_inv, v)                 \
    VALUE(int64_t, nrhs, v)                    \
    VALUE(int64_t, incx, v)                    \
    VALUE(int64_t, incy, v)                    \
    VALUE(int64_t, batchCount, v)              \
    VALUE(int64_t, batchSize, v)               \
    VALUE(int64_t, strideA, v)                 \
    VALUE(int64_t, strideB, v)                 \
    VALUE(int64_t, strideC, v)                 \
    VALUE(int64_t, stridex, v)                 \
    VALUE(int64_t, stridey, v)                 \
    VALUE(int64_t, group_count, v)             \
    VALUE(cublasOperation_t, trans, v)         \
    VALUE(cublasOperation_t, transa, v)        \
    VALUE(cublasOperation_t, transb, v)        \
    VALUE(cublasOperation_t, transc, v)        \
    VALUE(cublasFillMode_t, uplo, v)           \
    VALUE(cublasDiagType_t, diag, v)           \
    VALUE(cublasSideMode_t, side, v)           \
    VALUE(cublasSideMode_t, mode, v)           \
    VALUE(cudaDataType, alphaType, v)          \
    VALUE(cudaDataType, xType, v)              \
    VALUE(cudaDataType, yType, v)              \
    VALUE(cudaDataType, executiontype, v)      \
    VALUE(cudaDataType, executionType, v)      \
    VALUE(cudaDataType, csType, v)             \
    VALUE(cudaDataType, paramType, v)          \
    VALUE(cudaDataType, resultType, v)         \
    VALUE(cudaDataType, Atype, v)              \
    VALUE(cudaDataType, Btype, v)              \
    VALUE(cudaDataType, Ctype, v)              \
    VALUE(cudaDataType, abType, v)             \
    VALUE(cudaDataType, d1Type, v)             \
    VALUE(cudaDataType, d2Type, v)             \
    VALUE(cudaDataType, x1Type, v)             \
    VALUE(cudaDataType, y1Type, v)             \
    VALUE(cublasComputeType_t, computeType, v) \
    VALUE(cublasGemmAlgo_t, algo, v)           \
    VALUE(int, A_bias, v)                      \
    VALUE(int, B_bias, v)                      \
    VALUE(int, C_bias, v)                      \
    VALUE(int, C_mult, v)                      \
    VALUE(int, C_shift, v)                     \
    VALUE(const void *, transa_array, v)       \
    VALUE(const void *, transb_array, v)       \
    VALUE(const void *, m_array, v)            \
    VALUE(const void *, n_array, v)            \
    VALUE(const void *, k_array, v)            \
    VALUE(const void *, lda_array, v)          \
    VALUE(const void *, ldb_array, v)          \
    VALUE(const void *, ldc_array, v)          \
    VALUE(const void *, group_size, v)         \
    VALUE(const void *, alpha_array, v)        \
    VALUE(const void *, beta_array, v)
#define VALUE(type, name, v) __attribute__((unused)) type name = (v)->name;

#endif

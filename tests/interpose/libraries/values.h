/*
 * values.h - a value for each parameter that a call of cublas.def may have. The tables give all parameters of one
 * meaning the same name, so that one set of values serves every call: CALLS_VALUES declares them as local variables.
 */
#ifndef TESTS_INTERPOSE_LIBRARIES_VALUES_H
#define TESTS_INTERPOSE_LIBRARIES_VALUES_H

#include <cublas_api.h>
#include <stddef.h>
#include <stdint.h>

/* Type and name of each: memory (scalars, vectors, matrices), arrays of pointers to memory, sizes, ways and types;
 * last, in host memory and of the width of integers that the call has, those of products in groups. */
#define VALUES(EACH)                       \
    EACH(cublasHandle_t, handle)           \
    EACH(void *, alpha)                    \
    EACH(void *, beta)                     \
    EACH(void *, x)                        \
    EACH(void *, y)                        \
    EACH(void *, result)                   \
    EACH(void *, c)                        \
    EACH(void *, s)                        \
    EACH(void *, param)                    \
    EACH(void *, A)                        \
    EACH(void *, B)                        \
    EACH(void *, C)                        \
    EACH(void *, AP)                       \
    EACH(void *, a)                        \
    EACH(void *, b)                        \
    EACH(void *, d1)                       \
    EACH(void *, d2)                       \
    EACH(void *, x1)                       \
    EACH(void *, y1)                       \
    EACH(void *, P)                        \
    EACH(void *, info)                     \
    EACH(void *, devIpiv)                  \
    EACH(void *, devInfoArray)             \
    EACH(void *, Aarray)                   \
    EACH(void *, Barray)                   \
    EACH(void *, Carray)                   \
    EACH(void *, xarray)                   \
    EACH(void *, yarray)                   \
    EACH(void *, Ainv)                     \
    EACH(void *, TauArray)                 \
    EACH(int64_t, n)                       \
    EACH(int64_t, m)                       \
    EACH(int64_t, k)                       \
    EACH(int64_t, kl)                      \
    EACH(int64_t, ku)                      \
    EACH(int64_t, lda)                     \
    EACH(int64_t, ldb)                     \
    EACH(int64_t, ldc)                     \
    EACH(int64_t, lda_inv)                 \
    EACH(int64_t, nrhs)                    \
    EACH(int64_t, incx)                    \
    EACH(int64_t, incy)                    \
    EACH(int64_t, batchCount)              \
    EACH(int64_t, batchSize)               \
    EACH(int64_t, strideA)                 \
    EACH(int64_t, strideB)                 \
    EACH(int64_t, strideC)                 \
    EACH(int64_t, stridex)                 \
    EACH(int64_t, stridey)                 \
    EACH(cublasOperation_t, trans)         \
    EACH(cublasOperation_t, transa)        \
    EACH(cublasOperation_t, transb)        \
    EACH(cublasOperation_t, transc)        \
    EACH(cublasFillMode_t, uplo)           \
    EACH(cublasDiagType_t, diag)           \
    EACH(cublasSideMode_t, side)           \
    EACH(cublasSideMode_t, mode)           \
    EACH(cudaDataType, alphaType)          \
    EACH(cudaDataType, xType)              \
    EACH(cudaDataType, yType)              \
    EACH(cudaDataType, executiontype)      \
    EACH(cudaDataType, executionType)      \
    EACH(cudaDataType, csType)             \
    EACH(cudaDataType, paramType)          \
    EACH(cudaDataType, resultType)         \
    EACH(cudaDataType, Atype)              \
    EACH(cudaDataType, Btype)              \
    EACH(cudaDataType, Ctype)              \
    EACH(cudaDataType, abType)             \
    EACH(cudaDataType, d1Type)             \
    EACH(cudaDataType, d2Type)             \
    EACH(cudaDataType, x1Type)             \
    EACH(cudaDataType, y1Type)             \
    EACH(cublasComputeType_t, computeType) \
    EACH(cublasGemmAlgo_t, algo)           \
    EACH(int, A_bias)                      \
    EACH(int, B_bias)                      \
    EACH(int, C_bias)                      \
    EACH(int, C_mult)                      \
    EACH(int, C_shift)                     \
    EACH(const void *, transa_array)       \
    EACH(const void *, transb_array)       \
    EACH(const void *, m_array)            \
    EACH(const void *, n_array)            \
    EACH(const void *, k_array)            \
    EACH(const void *, lda_array)          \
    EACH(const void *, ldb_array)          \
    EACH(const void *, ldc_array)          \
    EACH(const void *, group_size)         \
    EACH(const void *, alpha_array)        \
    EACH(const void *, beta_array)         \
    EACH(int64_t, group_count)

#define VALUE_MEMBER(type, name) type name;
struct values {
    VALUES(VALUE_MEMBER)
};

/* `values` as local variables. */
#define VALUE_LOCAL(type, name) __attribute__((unused)) type name = values->name;
#define CALLS_VALUES            VALUES(VALUE_LOCAL)

/*
 * Random sizes, leading dimensions, increments and strides of either sign, transposes, sides: all of them such that a
 * matrix of VALUES_SIZE rows or columns, VALUES_BATCH times, fits half an area of the arena.
 */
enum { VALUES_SIZE = 6, VALUES_BATCH = 3 };
void values_choose_shape(struct values *v);

/* The call with its sizes, for messages. */
void values_describe(const struct values *v, const char *symbol, char *text, size_t room);

#endif

/*
 * libraries.c - hooks of cuBLAS, by plain symbol interposition.
 *
 * They only add meaning: one touch for each operand, whatever kernels the library chooses. What it launches inside
 * passes the driver's hooks at depth > 0, which forward. Calls of the library that are not hooked here stay visible
 * there.
 */
#include "interpose/shim/shim.h"

#include <cublas_v2.h>
#include <dlfcn.h>
#include <string.h>

enum { LIBRARY_FUNCTIONS = 4 };

/* The real functions, as found by look-ups of the trainer or as next in the loader's order. */
struct library_function {
    const char *name;
    void *hook;
    _Atomic(void *) real;
};

enum { FN_SGEMM, FN_DGEMM, FN_GEMM_EX, FN_GET_STREAM };

static struct library_function functions[LIBRARY_FUNCTIONS] = {
    [FN_SGEMM] = {"cublasSgemm_v2", (void *)cublasSgemm_v2, NULL},
    [FN_DGEMM] = {"cublasDgemm_v2", (void *)cublasDgemm_v2, NULL},
    [FN_GEMM_EX] = {"cublasGemmEx", (void *)cublasGemmEx, NULL},
    [FN_GET_STREAM] = {"cublasGetStream_v2", NULL, NULL}, /* asked, not hooked */
};

void *
library_route(const char *name, void *real)
{
    for (unsigned i = 0; i < LIBRARY_FUNCTIONS; ++i) {
        if (functions[i].hook == NULL || strcmp(functions[i].name, name) != 0)
            continue;
        if (real != NULL && real != functions[i].hook)
            atomic_store(&functions[i].real, real);
        return functions[i].hook;
    }
    return NULL;
}

/* A neighbour of `known` in its library, which may have been loaded with RTLD_LOCAL. */
static void *
neighbour(void *known, const char *name)
{
    Dl_info info;
    if (known == NULL || dladdr(known, &info) == 0)
        return NULL;
    void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return NULL;
    void *found = shim_real_dlsym(library, name);
    dlclose(library); /* drops only the count that dlopen added */
    return found;
}

static void *
real_function(unsigned index)
{
    void *real = atomic_load_explicit(&functions[index].real, memory_order_relaxed);
    if (real == NULL) {
        real = shim_real_dlsym(RTLD_NEXT, functions[index].name);
        if (real != NULL)
            atomic_store(&functions[index].real, real);
    }
    return real;
}

/* The stream that `handle` works on; NULL where it cannot be told. */
static CUstream
stream_of_handle(cublasHandle_t handle, void *known)
{
    void *get_stream = atomic_load(&functions[FN_GET_STREAM].real);
    if (get_stream == NULL) {
        get_stream = neighbour(known, functions[FN_GET_STREAM].name);
        atomic_store(&functions[FN_GET_STREAM].real, get_stream);
    }
    cudaStream_t stream = NULL;
    if (get_stream == NULL || ((__typeof__(&cublasGetStream_v2))get_stream)(handle, &stream) != CUBLAS_STATUS_SUCCESS)
        return NULL;
    return stream == NULL ? CU_STREAM_LEGACY : (CUstream)stream;
}

enum { OPERANDS_OF_GEMM = 3 };

/* What a gemm names: where A, B and C stand in its argument list, and how large C is (its rows are `ldc` elements
 * apart). */
struct gemm_operands {
    const void *a, *b;
    void *c;
    uint32_t a_place, b_place, c_place;
    int m, n, ldc;
    size_t c_element_bytes;
};

static size_t
bytes_of_c(const struct gemm_operands *of)
{
    if (of->m <= 0 || of->n <= 0 || of->ldc < of->m)
        return 1; /* the library refuses it, or does nothing */
    return ((size_t)(of->n - 1) * (size_t)of->ldc + (size_t)of->m) * of->c_element_bytes;
}

static struct operation
gemm_operation(const char *name, cublasHandle_t handle, void *real, struct gemm_operands of,
               struct operand operands[OPERANDS_OF_GEMM])
{
    CUstream stream = stream_of_handle(handle, real);
    struct operation operation = {.name = name,
                                  .stream = stream != NULL ? stream : CU_STREAM_LEGACY,
                                  .opaque = stream == NULL, /* then everything waits for the boundary */
                                  .operands = operands,
                                  .operand_count = OPERANDS_OF_GEMM};
    operands[0] = (struct operand){of.a_place, (CUdeviceptr)(uintptr_t)of.a, 1, ACCESS_READ, "A", 0, 0};
    operands[1] = (struct operand){of.b_place, (CUdeviceptr)(uintptr_t)of.b, 1, ACCESS_READ, "B", 0, 0};
    operands[2] = (struct operand){of.c_place, (CUdeviceptr)(uintptr_t)of.c, bytes_of_c(&of), ACCESS_WRITE, "C", 0, 0};
    return operation;
}

static size_t
bytes_of_type(cudaDataType type)
{
    switch (type) {
    case CUDA_R_64F:
    case CUDA_C_32F:
        return 8;
    case CUDA_C_64F:
        return 16;
    case CUDA_R_32F:
    case CUDA_R_32I:
        return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    default:
        return 1;
    }
}

/* One body for all gemms: `call` is the real function, typed, with its arguments. */
#define GEMM_HOOK(fn, index, call, ...)                                                        \
    do {                                                                                       \
        void *found = real_function(index);                                                    \
        if (found == NULL)                                                                     \
            return CUBLAS_STATUS_NOT_SUPPORTED;                                                \
        __typeof__(&(fn)) real = (__typeof__(&(fn)))found;                                     \
        if (!shim_is_watched())                                                                \
            return real call;                                                                  \
        struct operand operands[OPERANDS_OF_GEMM];                                             \
        struct operation operation =                                                           \
            gemm_operation(#fn, handle, found, (struct gemm_operands){__VA_ARGS__}, operands); \
        ++shim_depth;                                                                          \
        shim.engine->begin(&operation);                                                        \
        cublasStatus_t status = real call;                                                     \
        shim.engine->end(&operation, status == CUBLAS_STATUS_SUCCESS);                         \
        --shim_depth;                                                                          \
        return status;                                                                         \
    } while (0)

__attribute__((visibility("default"))) cublasStatus_t
cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
               const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
               int ldc)
{
    GEMM_HOOK(cublasSgemm_v2, FN_SGEMM, (handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), .a = a,
              .b = b, .c = c, .a_place = 7, .b_place = 9, .c_place = 12, .m = m, .n = n, .ldc = ldc,
              .c_element_bytes = sizeof(float));
}

__attribute__((visibility("default"))) cublasStatus_t
cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
               const double *alpha, const double *a, int lda, const double *b, int ldb, const double *beta, double *c,
               int ldc)
{
    GEMM_HOOK(cublasDgemm_v2, FN_DGEMM, (handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), .a = a,
              .b = b, .c = c, .a_place = 7, .b_place = 9, .c_place = 12, .m = m, .n = n, .ldc = ldc,
              .c_element_bytes = sizeof(double));
}

__attribute__((visibility("default"))) cublasStatus_t
cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
             const void *alpha, const void *a, cudaDataType a_type, int lda, const void *b, cudaDataType b_type,
             int ldb, const void *beta, void *c, cudaDataType c_type, int ldc, cublasComputeType_t compute_type,
             cublasGemmAlgo_t algo)
{
    GEMM_HOOK(cublasGemmEx, FN_GEMM_EX,
              (handle, transa, transb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc,
               compute_type, algo),
              .a = a, .b = b, .c = c, .a_place = 7, .b_place = 10, .c_place = 14, .m = m, .n = n, .ldc = ldc,
              .c_element_bytes = bytes_of_type(c_type));
}

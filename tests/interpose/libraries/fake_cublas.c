/*
 * fake_cublas.c - the test's own libcublas, made from the shim's table: every call only records its arguments. Built
 * twice, with COPY the name of its record.
 */
#include "fake_cublas.h"

#include <string.h>

__attribute__((visibility("default"))) struct fake_cublas COPY;

static cublasStatus_t
lay_down(const char *symbol, const uint64_t *words, unsigned count)
{
    ++COPY.calls;
    COPY.symbol = symbol;
    memcpy(COPY.seen, words, count * sizeof(*words));
    COPY.seen_count = count;
    return COPY.answer;
}

#define ROW(symbol, ...) ROW_(symbol, __VA_ARGS__)
#define ROW_(symbol, parameters, arguments, ...)                                       \
    cublasStatus_t symbol parameters;                                                  \
    __attribute__((visibility("default"))) cublasStatus_t symbol parameters            \
    {                                                                                  \
        const uint64_t words[] = {WORDS arguments};                                    \
        return lay_down(#symbol, words, (unsigned)(sizeof(words) / sizeof(words[0]))); \
    }
#include "interpose/shim/libraries/cublas.def"
ROW(cublasSetStream_v2, (cublasHandle_t handle, cudaStream_t stream), (handle, stream), )
ROW(cublasSetWorkspace_v2, (cublasHandle_t handle, void *workspace, size_t bytes), (handle, workspace, bytes), )
ROW(cublasDestroy_v2, (cublasHandle_t handle), (handle), )

__attribute__((visibility("default"))) cublasStatus_t
cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream)
{
    (void)handle;
    *stream = COPY.stream;
    return COPY.has_no_stream ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

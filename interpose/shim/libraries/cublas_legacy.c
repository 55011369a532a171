/*
 * cublas_legacy.c - the hooks of cuBLAS's interface before handles, made from cublas_legacy.def.
 *
 * It works on the stream of the last cublasSetKernelStream, for which there is no query: the hook of that call
 * remembers it. Calls return no status: each counts as enqueued. Where the library has no such function the hook does
 * nothing, as the calls do that fail.
 */
#include "interpose/shim/libraries/words.h"

#include <cublas.h>

#define CALL(symbol, ...)         CALL_(symbol, __VA_ARGS__)
#define ANSWER(type, symbol, ...) ANSWER_(type, symbol, __VA_ARGS__)

#define CALL_(symbol, ...)         INDEX_##symbol,
#define ANSWER_(type, symbol, ...) INDEX_##symbol,
enum {
#include "interpose/shim/libraries/cublas_legacy.def"
    INDEX_cublasSetKernelStream,
    FUNCTIONS
};
#undef CALL_
#undef ANSWER_

/* The header says whether the table is right. */
#define CALL_(symbol, parameters, ...)         void symbol parameters;
#define ANSWER_(type, symbol, parameters, ...) type symbol parameters;
#include "interpose/shim/libraries/cublas_legacy.def"
#undef CALL_
#undef ANSWER_

#define CALL_(symbol, ...)         {.name = #symbol, .hook = (void *)symbol},
#define ANSWER_(type, symbol, ...) {.name = #symbol, .hook = (void *)symbol},
static const struct library_function functions[FUNCTIONS] = {
#include "interpose/shim/libraries/cublas_legacy.def"
    CALL_(cublasSetKernelStream)};
#undef CALL_
#undef ANSWER_
static struct library_reals reals[FUNCTIONS];

struct library library_cublas_legacy = {
    .file = "libcublas.so", .functions = functions, .reals = reals, .function_count = FUNCTIONS};

#define REAL_OF(symbol) \
    ((__typeof__(&(symbol)))library_real(&library_cublas_legacy, INDEX_##symbol, __builtin_return_address(0)))
#define EXPORT __attribute__((visibility("default")))

static _Atomic(CUstream) kernel_stream;

EXPORT cublasStatus
cublasSetKernelStream(cudaStream_t stream)
{
    __typeof__(&cublasSetKernelStream) real = REAL_OF(cublasSetKernelStream);
    if (real == NULL)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    cublasStatus status = real(stream);
    if (status == CUBLAS_STATUS_SUCCESS)
        atomic_store(&kernel_stream, stream);
    return status;
}

static void
begin_legacy(struct library_call *call)
{
    CUstream stream = atomic_load(&kernel_stream);
    library_call_begin(call, &stream);
}

#define CALL_(symbol, parameters, arguments, ...)     \
    EXPORT void symbol parameters                     \
    {                                                 \
        __typeof__(&(symbol)) real = REAL_OF(symbol); \
        if (real == NULL)                             \
            return;                                   \
        if (!shim_is_watched()) {                     \
            real arguments;                           \
            return;                                   \
        }                                             \
        struct library_call call;                     \
        library_call_init(&call, #symbol);            \
        __VA_ARGS__                                   \
        begin_legacy(&call);                          \
        do {                                          \
            if (!call.operation.skip)                 \
                real arguments;                       \
        } while (library_call_end(&call, true));      \
    }
#define ANSWER_(type, symbol, parameters, arguments, ...) \
    EXPORT type symbol parameters                         \
    {                                                     \
        __typeof__(&(symbol)) real = REAL_OF(symbol);     \
        if (real == NULL)                                 \
            return (type){0};                             \
        if (!shim_is_watched())                           \
            return real arguments;                        \
        struct library_call call;                         \
        library_call_init(&call, #symbol);                \
        call.operation.answers = true;                    \
        __VA_ARGS__                                       \
        begin_legacy(&call);                              \
        type answer = {0};                                \
        do {                                              \
            if (!call.operation.skip)                     \
                answer = real arguments;                  \
        } while (library_call_end(&call, true));          \
        return answer;                                    \
    }
#include "interpose/shim/libraries/cublas_legacy.def"

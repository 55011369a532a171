/*
 * cublas_legacy.c - the hooks of cuBLAS's interface before handles, made from cublas_legacy.def.
 *
 * It works on the stream of the last cublasSetKernelStream, for which there is no query: the hook of that call
 * remembers it. Calls return no status: each counts as enqueued. Where the library has no such function the hook does
 * nothing, as the calls do that fail.
 */
#include "interpose/shim/libraries/words.h"

#include <cublas.h>

/* Each reading defines ENTRY(type, answers, declared, kept, given, symbol, parameters, arguments, operands...): whether
 * it answers, and the answer where it is declared, gets the call's, and is returned. */
#define CALL(symbol, ...)         ENTRY(void, false, , , , symbol, __VA_ARGS__)
#define ANSWER(type, symbol, ...) ENTRY(type, true, type answer = {0}, answer =, answer, symbol, __VA_ARGS__)

#define ENTRY(type, answers_, declared, kept, given, symbol, ...) INDEX_##symbol,
enum {
#include "interpose/shim/libraries/cublas_legacy.def"
    INDEX_cublasSetKernelStream,
    FUNCTIONS
};
#undef ENTRY

/* The header says whether the table is right. */
#define ENTRY(type, answers_, declared, kept, given, symbol, parameters, ...) type symbol parameters;
#include "interpose/shim/libraries/cublas_legacy.def"
#undef ENTRY

#define ENTRY(type, answers_, declared, kept, given, symbol, ...) {.name = #symbol, .hook = (void *)symbol},
static const struct library_function functions[FUNCTIONS] = {
#include "interpose/shim/libraries/cublas_legacy.def"
    CALL(cublasSetKernelStream, )};
#undef ENTRY
static struct library_reals reals[FUNCTIONS];

struct library library_cublas_legacy = {
    .file = "libcublas.so", .functions = functions, .reals = reals, .function_count = FUNCTIONS};

static _Atomic(CUstream) kernel_stream;

EXPORT cublasStatus
cublasSetKernelStream(cudaStream_t stream)
{
    __typeof__(&cublasSetKernelStream) real = REAL_OF(library_cublas_legacy, cublasSetKernelStream);
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

#define ENTRY(type, answers_, declared, kept, given, symbol, parameters, arguments, ...) \
    EXPORT type symbol parameters                                                        \
    {                                                                                    \
        declared;                                                                        \
        __typeof__(&(symbol)) real = REAL_OF(library_cublas_legacy, symbol);             \
        if (real == NULL)                                                                \
            return given;                                                                \
        if (!shim_is_watched()) {                                                        \
            kept real arguments;                                                         \
            return given;                                                                \
        }                                                                                \
        struct library_call call;                                                        \
        library_call_init(&call, #symbol);                                               \
        call.operation.answers = answers_;                                               \
        __VA_ARGS__                                                                      \
        begin_legacy(&call);                                                             \
        do {                                                                             \
            if (!call.operation.skip)                                                    \
                kept real arguments;                                                     \
        } while (library_call_end(&call, true));                                         \
        return given;                                                                    \
    }
#include "interpose/shim/libraries/cublas_legacy.def"

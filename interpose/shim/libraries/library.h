/*
 * library.h - what the hooks of cuBLAS, cuBLASLt and cuDNN share.
 *
 * The hooks only add meaning: which memory a call names, and how. What the library launches inside passes the driver's
 * hooks at depth > 0, which forward; calls that are not hooked stay visible there. Each library has a table of calls
 * (NAME.def), from which its hooks are made (NAME.c): a hook finds the real function, describes the call, and reports
 * it to the engine before and after. The library's answer is returned as it came.
 *
 * A hook must never need the library it hooks: whatever it asks, it asks the copy that is about to be called, because a
 * process may have loaded several.
 */
#ifndef DDPRUN_INTERPOSE_SHIM_LIBRARIES_LIBRARY_H
#define DDPRUN_INTERPOSE_SHIM_LIBRARIES_LIBRARY_H

#include "interpose/shim/shim.h"

#define CUBLASAPI /* CUDA 12's header wants it from cublas_v2.h */
#include <cublas_api.h>

enum {
    LIBRARY_OPERANDS = 32, /* of one call; what does not fit makes the call opaque */
    LIBRARY_CALLERS = 16,  /* objects (the program, its libraries) whose calls are found without a search */
    LIBRARY_COPIES = 8,    /* of one library in a process, whose helpers are found without a search */
    LIBRARY_HELPERS = 16,
};

/* Places of operands that are no arguments of the call. */
enum { OPERAND_WORKSPACE = 64, OPERAND_DESCRIBED };

struct library_function {
    const char *name;
    void *hook;
};

/* Where one function really is, for each object that calls it. */
struct library_reals {
    _Atomic(void *) of_caller[LIBRARY_CALLERS];
};

/* One of the libraries. Static; `functions` and `helpers` are tables of its .c file. */
struct library {
    const char *file; /* how the names of its files begin: "libcublas.so" */
    const struct library_function *functions;
    struct library_reals *reals; /* of each function */
    unsigned function_count;
    const char *const *helpers; /* functions that hooks ask, by number */
    struct code_range callers[LIBRARY_CALLERS];
    struct code_range copies[LIBRARY_COPIES];
    _Atomic unsigned caller_count, copy_count;
    _Atomic(void *) helper[LIBRARY_COPIES][LIBRARY_HELPERS];
};
extern struct library library_cublas, library_cublas_legacy, library_cublaslt, library_cudnn;

/*
 * The function behind functions[index] for a call that returns to `caller`; NULL if not found. The same as the
 * loader would have bound if the shim were not there: in a process with two copies of a library, each caller gets its
 * own. May be called at any depth, in any thread; allocates only when the loader does, for a caller's first call. What
 * was found for an object is kept: a library that is unloaded while the object that was linked with it stays is not
 * noticed, which the loader does not do either.
 */
void *library_real(struct library *library, unsigned index, const void *caller);

/* helpers[number] of the copy of the library that `real` belongs to; NULL if that copy does not have it. */
void *library_helper(struct library *library, const void *real, unsigned number);

/* A call, from its description to its end. On the hook's stack. */
struct library_call {
    struct operation operation;
    uint32_t type; /* of the operand that is added next, as in struct operand */
    struct operand operands[LIBRARY_OPERANDS];
};

/* `name` has static storage. Then the operands are added; then library_call_begin(). */
void library_call_init(struct library_call *call, const char *name);

/*
 * The call is reported to the engine: `stream` is what the library will enqueue on (0: the legacy default stream; NULL
 * pointer to it: the stream is unknown, and the call is opaque). Until library_call_end(), this thread's hooks only
 * forward.
 */
void library_call_begin(struct library_call *call, const CUstream *stream);
/* Returns whether the call is to be made once more (struct operation, `again`). */
bool library_call_end(struct library_call *call, bool enqueued);

/* ---- how much of an operand's memory is meant ---- */

/* `bytes` at each of inner_count places, that outer_count times; strides in bytes. No bytes: nothing. */
struct extent {
    size_t bytes;
    size_t inner_count, inner_stride;
    size_t outer_count;
    int64_t outer_stride; /* may lead backwards */
};

/* Adds what `pointer` names, argument number `argument` (from 0); nothing where the pointer is NULL or not meant. */
void library_operand(struct library_call *call, uint32_t argument, const char *name, const void *pointer,
                     enum operand_access access, struct extent extent);

/* Adds an array of `count` device pointers. */
void library_operand_each(struct library_call *call, uint32_t argument, const char *name, const void *pointers,
                          enum operand_access access, int64_t count);

static inline struct extent
extent_solid(size_t bytes)
{
    return (struct extent){bytes, 1, 0, 1, 0};
}

/* n elements; `increment` may be negative (then BLAS begins at the other end of the same memory), or zero. */
static inline struct extent
extent_vector(int64_t n, int64_t increment, size_t element_bytes)
{
    if (n <= 0)
        return (struct extent){0};
    size_t step = increment < 0 ? -(size_t)increment : (size_t)increment;
    return (struct extent){element_bytes, (size_t)n, step * element_bytes, 1, 0};
}

/* In columns, which begin `ld` elements apart. */
static inline struct extent
extent_matrix(int64_t rows, int64_t columns, int64_t ld, size_t element_bytes)
{
    if (rows <= 0 || columns <= 0)
        return (struct extent){0};
    return (struct extent){(size_t)rows * element_bytes, (size_t)columns, (size_t)ld * element_bytes, 1, 0};
}

/* The same `count` times, `stride` elements apart. */
static inline struct extent
extent_batch(struct extent of_one, int64_t stride, int64_t count, size_t element_bytes)
{
    if (count <= 0)
        return (struct extent){0};
    of_one.outer_count = (size_t)count;
    of_one.outer_stride = (int64_t)((size_t)stride * element_bytes);
    return of_one;
}

/* ---- for shim.h's library_route() ---- */

/* Thunks: code that notes which real function is meant, and continues to its hook. */
enum { LIBRARY_THUNKS = 1024, LIBRARY_THUNK_BYTES = 16 }; /* also in thunks.S */

/* ---- hooks ---- */

#define EXPORT __attribute__((visibility("default")))

/* The function behind hook `symbol`, for the object that called the hook. */
#define REAL_OF(library, symbol) \
    ((__typeof__(&(symbol)))library_real(&(library), INDEX_##symbol, __builtin_return_address(0)))

/* The hook of a call of `library`, which answers `success` if it has enqueued its work, and `missing` where the library
 * has no such function; `begins` begins the call after the statements that follow, which say its operands. */
#define LIBRARY_HOOK(type, success, missing, library, symbol, parameters, arguments, begins, ...) \
    EXPORT type symbol parameters                                                                 \
    {                                                                                             \
        __typeof__(&(symbol)) real = REAL_OF(library, symbol);                                    \
        if (real == NULL)                                                                         \
            return missing;                                                                       \
        if (!shim_is_watched())                                                                   \
            return real arguments;                                                                \
        struct library_call call;                                                                 \
        library_call_init(&call, #symbol);                                                        \
        __VA_ARGS__                                                                               \
        begins;                                                                                   \
        type status;                                                                              \
        do                                                                                        \
            status = call.operation.skip ? (success) : real arguments;                            \
        while (library_call_end(&call, status == (success)));                                     \
        return status;                                                                            \
    }

/* ---- types.c: sizes of the element types of CUDA's libraries ---- */
/* Bits of one element; 0 for a type that we do not know. Source: library_types.h. */
unsigned type_bits(cudaDataType type);

/* Bytes of one element. Of a type that we do not know, and of those under a byte: 16, more than any has; so that no
 * byte is missed. */
size_t cuda_type_bytes(cudaDataType type);

/* enum ddp_type of a kind of float that tensors have; 0: it is another type. */
uint32_t type_of_floats(cudaDataType type);

/* Bytes of alpha and beta of a product in this compute type, with results of this type. Source: the table of supported
 * types of cublasGemmEx in the cuBLAS documentation. */
size_t scalar_of(cublasComputeType_t compute, cudaDataType result);

#endif

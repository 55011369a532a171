/*
 * calls.h - all that an object file made by softgpu-cc asks of libsoftgpu.so, as one table, so that it names no symbol
 * of the stand-in's and any linker can link it with any libcudart.
 *
 * An object gets the table from cudaGetExportTable() under an identifier that only the stand-in's runtime knows. An
 * error says that the program's runtime is NVIDIA's. Objects and libraries are of one build: SOFTGPU_CALLS_VERSION
 * grows with each change of the table or of a struct of the stand-in that objects hold. C and C++; libsoftgpu.so
 * fills the table in, libcudart hands it out, softgpu/object.h of the device headers asks for it.
 */
#ifndef SOFTGPU_CALLS_H
#define SOFTGPU_CALLS_H

#include "softgpu/block.h"
#include "softgpu/stub.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTGPU_CALLS_VERSION 8u

/* A cudaUUID_t or CUuuid: 16 bytes, random. */
#define SOFTGPU_CALLS_ID                                                                                        \
    {                                                                                                           \
        '\x5b', '\x1d', '\x72', '\x0e', '\x63', '\x4f', '\x4a', '\x39', '\x2c', '\x66', '\x17', '\x5a', '\x08', \
            '\x3e', '\x71', '\x44'                                                                              \
    }

/* What a thread-local pointer of the program's is to point to while its OS thread runs a kernel. */
enum softgpu_target { SOFTGPU_TARGET_THREAD, SOFTGPU_TARGET_DYNAMIC_SHARED };

/* Such a pointer, in the static thread-local storage of the program. */
struct softgpu_pointer {
    enum softgpu_target target;   /* struct softgpu_thread, or the dynamic shared memory of the block */
    uintptr_t distance;           /* libsoftgpu's: from its struct softgpu_thread, the same in all threads */
    struct softgpu_pointer *next; /* libsoftgpu's */
};

/* Makes `variable` known, for good: the struct stays the caller's and in place. Any thread. */
void softgpu_pointer_add(struct softgpu_pointer *pointer, void *variable);

/* struct softgpu_thread of the calling thread. */
struct softgpu_thread *softgpu_thread_here(void);

/* Keeps the program or library that holds `address` loaded for good: the runtime knows kernels by their addresses. */
void softgpu_keep(const void *address);

/* All but those that have attributes, which a pointer from __typeof__ would lose in C++. */
#define SOFTGPU_CALLS(X) \
    X(thread_here)       \
    X(keep)              \
    X(pointer_add)       \
    X(run_fibers)        \
    X(thread_end)        \
    X(loop_begin)        \
    X(loop_next)         \
    X(barrier)           \
    X(barrier_vote)      \
    X(meet)              \
    X(active_mask)       \
    X(wait)              \
    X(wake)              \
    X(launch_here)       \
    X(shared_of)         \
    X(yield)             \
    X(changed)           \
    X(ordered)           \
    X(shared_place)      \
    X(kernel_name)       \
    X(xorwow_jump)       \
    X(variable_add)      \
    X(variable_remove)

struct softgpu_calls {
    unsigned version; /* SOFTGPU_CALLS_VERSION */
#define SOFTGPU_CALL_MEMBER(name) __typeof__(softgpu_##name) *name;
    SOFTGPU_CALLS(SOFTGPU_CALL_MEMBER)
#undef SOFTGPU_CALL_MEMBER
    void (*kernel_fatal)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    void (*misaligned)(const char *kernel, unsigned number, size_t alignment);
    void (*trap)(void);
    void (*assert_fail)(const char *expression, const char *file, unsigned line, const char *function);
};

/* Static storage. */
const struct softgpu_calls *softgpu_calls_table(void);

#ifdef __cplusplus
}
#endif
#endif

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

#define SOFTGPU_CALLS_VERSION 5u

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

struct softgpu_calls {
    unsigned version; /* SOFTGPU_CALLS_VERSION */
    __typeof__(softgpu_thread_here) *thread_here;
    __typeof__(softgpu_keep) *keep;
    __typeof__(softgpu_pointer_add) *pointer_add;
    __typeof__(softgpu_run_fibers) *run_fibers;
    __typeof__(softgpu_thread_end) *thread_end;
    __typeof__(softgpu_loop_begin) *loop_begin;
    __typeof__(softgpu_loop_next) *loop_next;
    __typeof__(softgpu_barrier) *barrier;
    __typeof__(softgpu_barrier_vote) *barrier_vote;
    __typeof__(softgpu_meet) *meet;
    __typeof__(softgpu_active_mask) *active_mask;
    __typeof__(softgpu_wait) *wait;
    __typeof__(softgpu_wake) *wake;
    __typeof__(softgpu_shared_place) *shared_place;
    __typeof__(softgpu_kernel_name) *kernel_name;
    __typeof__(softgpu_xorwow_jump) *xorwow_jump;
    void (*kernel_fatal)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    void (*misaligned)(const char *kernel, unsigned number, size_t alignment);
    void (*trap)(void);
    void (*assert_fail)(const char *expression, const char *file, unsigned line, const char *function);
    __typeof__(softgpu_variable_add) *variable_add;
    __typeof__(softgpu_variable_remove) *variable_remove;
};

/* Static storage. */
const struct softgpu_calls *softgpu_calls_table(void);

#ifdef __cplusplus
}
#endif
#endif

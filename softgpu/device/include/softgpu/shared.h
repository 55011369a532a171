/*
 * softgpu/shared.h - __shared__ variables of kernels, in the arena of the OS thread that runs the block. Included by
 * launch.h.
 */
#ifndef SOFTGPU_SHARED_H
#define SOFTGPU_SHARED_H
#pragma GCC system_header

#include "softgpu/object.h"

/* What `softgpu_kernel` names outside the body of a kernel: see shared(). */
struct softgpu_kernel;

namespace softgpu
{

/* How much of a kernel's frame is used; a function's __shared__ variables (Kernel = ::softgpu_kernel) have none. */
template <class Kernel> struct frame {
    static size_t used;
    static size_t *used_pointer()
    {
        return &used;
    }
};
template <class Kernel> size_t frame<Kernel>::used = 0;

template <> struct frame<::softgpu_kernel> {
    static size_t *used_pointer()
    {
        return nullptr;
    }
};

template <class Variables, class Kernel> struct place {
    static size_t value;
};

/* When the program is loaded, so that images know their kernels' shared memory from the start. */
template <class Variables, class Kernel>
size_t place<Variables, Kernel>::value = softgpu_shared_place(&place<Variables, Kernel>::value,
                                                              frame<Kernel>::used_pointer(), sizeof(Variables),
                                                              alignof(Variables));

/* The __shared__ variables of one declaration, as members of a struct, in the arena of this OS thread. */
template <class Variables, class Kernel>
inline Variables &
shared()
{
    /* 0: a kernel launched by the constructor of a global object, or more than there is, which is reported now. */
    size_t at = __atomic_load_n(&place<Variables, Kernel>::value, __ATOMIC_RELAXED);
    if (__builtin_expect(at == 0, 0))
        at = softgpu_shared_place(&place<Variables, Kernel>::value, frame<Kernel>::used_pointer(), sizeof(Variables),
                                  alignof(Variables));
    return *reinterpret_cast<Variables *>(self().static_shared + at);
}

/* The element of `extern __shared__ T x[]`, from T[1]. */
template <class Array> using element = typename std::remove_extent<Array>::type;

template <class T>
inline T *
dynamic_shared()
{
    return reinterpret_cast<T *>(self().dynamic_shared);
}

/* Stands beside the pointer that such an array outside of functions becomes, and has it set in every thread. */
struct __attribute__((visibility("hidden"))) dynamic_variable {
    softgpu_pointer entry;

    explicit dynamic_variable(void *pointer)
    {
        entry.target = SOFTGPU_TARGET_DYNAMIC_SHARED;
        softgpu_pointer_add(&entry, pointer);
    }
};

} // namespace softgpu

#endif

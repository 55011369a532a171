/*
 * pinned_allocator.h - what CUDA 13 no longer has: an allocator of page-locked memory of the host, for host_vector and
 * the vectors of the standard library. With --allow-removed.
 */
#ifndef SOFTGPU_THRUST_PINNED_ALLOCATOR_H
#define SOFTGPU_THRUST_PINNED_ALLOCATOR_H
#pragma GCC system_header

#ifndef SOFTGPU_ALLOW_REMOVED
#error "CUDA 13 has no <thrust/system/cuda/experimental/pinned_allocator.h>: use cudaMallocHost, or --allow-removed"
#endif

#include "thrust/softgpu_run.h"

#include <new>

namespace thrust
{
namespace cuda
{
namespace experimental
{

template <class T> struct pinned_allocator {
    using value_type = T;
    template <class U> struct rebind {
        using other = pinned_allocator<U>;
    };

    pinned_allocator() = default;
    template <class U> pinned_allocator(const pinned_allocator<U> &)
    {
    }
    T *allocate(size_t count)
    {
        void *memory = nullptr;
        if (count > PTRDIFF_MAX / sizeof(T) || cudaMallocHost(&memory, count * sizeof(T)) != cudaSuccess)
            throw std::bad_alloc();
        return static_cast<T *>(memory);
    }
    void deallocate(T *memory, size_t)
    {
        (void)cudaFreeHost(memory);
    }
    friend bool operator==(const pinned_allocator &, const pinned_allocator &)
    {
        return true;
    }
    friend bool operator!=(const pinned_allocator &, const pinned_allocator &)
    {
        return false;
    }
};

} // namespace experimental
} // namespace cuda
} // namespace thrust

#endif

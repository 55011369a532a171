/*
 * softgpu/thread.h - where a thread is, barriers, fences, clocks: CUDA C++ Programming Guide, "Built-in Variables" to
 * "Time Function". Included by softgpu_prelude.h.
 *
 * In the body of a kernel, threadIdx and its relatives are parameters of the generated code (launch.h), and lie in
 * registers. In functions that the kernel calls, softgpu-cc writes softgpu_here->thread and the like in their place.
 */
#ifndef SOFTGPU_THREAD_H
#define SOFTGPU_THREAD_H
#pragma GCC system_header

#include "softgpu/object.h"

namespace softgpu
{
/* struct softgpu_indices with CUDA's types. */
struct indices {
    ::uint3 thread, block;
    ::dim3 block_dim, grid_dim;
};
static_assert(sizeof(indices) == sizeof(softgpu_indices), "the types have the same layout");

/* Reads as a pointer to the indices of the thread that runs now. */
struct here {
    inline __attribute__((always_inline)) const indices *operator->() const
    {
        return reinterpret_cast<const indices *>(self().here);
    }
};
} // namespace softgpu

/* threadIdx and its relatives of the thread that runs now. */
static const ::softgpu::here softgpu_here __attribute__((unused)) = {};

constexpr int warpSize = 32;

SOFTGPU_INLINE void
__syncthreads()
{
    softgpu_barrier();
}

SOFTGPU_INLINE int
__syncthreads_and(int predicate)
{
    return softgpu_barrier_vote(predicate, SOFTGPU_VOTE_AND);
}

SOFTGPU_INLINE int
__syncthreads_or(int predicate)
{
    return softgpu_barrier_vote(predicate, SOFTGPU_VOTE_OR);
}

SOFTGPU_INLINE int
__syncthreads_count(int predicate)
{
    return softgpu_barrier_vote(predicate, SOFTGPU_VOTE_COUNT);
}

SOFTGPU_INLINE void
__threadfence()
{
#if defined(__SANITIZE_THREAD__)
    /* ThreadSanitizer does not know fences; what all threads read and write orders them too. */
    static int everyones;
    __atomic_fetch_add(&everyones, 0, __ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

SOFTGPU_INLINE void
__threadfence_system()
{
    __threadfence();
}

/* Threads of a block share an OS thread: only the compiler could reorder. */
SOFTGPU_INLINE void
__threadfence_block()
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

SOFTGPU_INLINE unsigned long long
__globaltimer()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

SOFTGPU_INLINE long long
clock64()
{
#if defined(__x86_64__)
    return static_cast<long long>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
    long long ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return static_cast<long long>(__globaltimer());
#endif
}

SOFTGPU_INLINE void
__nanosleep(unsigned)
{
    softgpu_yield();
}

/* Of programmatic launches: a kernel begins after the one before it has ended. */
SOFTGPU_INLINE void
cudaTriggerProgrammaticLaunchCompletion()
{
}
#define cudaGridDependencySynchronize cudaTriggerProgrammaticLaunchCompletion

/* An element of linear memory; 0 outside of it, as CUDA defines. */
template <class T>
SOFTGPU_INLINE T
tex1Dfetch(cudaTextureObject_t texture, int element)
{
    const softgpu_texture *linear = reinterpret_cast<const softgpu_texture *>(texture);
    return element >= 0 && (element + size_t(1)) * sizeof(T) <= linear->bytes
               ? static_cast<const T *>(linear->memory)[element]
               : T();
}
template <class T>
SOFTGPU_INLINE void
tex1Dfetch(T *value, cudaTextureObject_t texture, int element)
{
    *value = tex1Dfetch<T>(texture, element);
}

/* What libcu++'s headers name. There is one address space. */
#define SOFTGPU_ADDRESS_SPACE(space)                               \
    SOFTGPU_INLINE size_t __cvta_generic_to_##space(const void *p) \
    {                                                              \
        return reinterpret_cast<size_t>(p);                        \
    }                                                              \
    SOFTGPU_INLINE void *__cvta_##space##_to_generic(size_t p)     \
    {                                                              \
        return reinterpret_cast<void *>(p);                        \
    }
SOFTGPU_ADDRESS_SPACE(shared)
SOFTGPU_ADDRESS_SPACE(global)
#undef SOFTGPU_ADDRESS_SPACE

__attribute__((noreturn)) SOFTGPU_INLINE void
__trap()
{
    softgpu_trap();
}

SOFTGPU_INLINE void
__brkpt()
{
    __builtin_trap();
}

#endif

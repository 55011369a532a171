/*
 * cuda/softgpu_barrier.h - <cuda/barrier>: cuda::barrier within a block, and copies that it waits for. libcu++,
 * "Extended API". What only TMA instructions do (barrier_arrive_tx, memcpy_async_tx, barrier_native_handle) is not
 * here, nor are waits with a limit of time.
 */
#ifndef SOFTGPU_CUDA_BARRIER_H
#define SOFTGPU_CUDA_BARRIER_H
#pragma GCC system_header

#include <cstddef>
#include <cuda/atomic>

#include "softgpu/phases.h"

namespace cuda
{

struct softgpu_no_completion {
    void operator()() const
    {
    }
};

template <thread_scope Scope, class Completion = softgpu_no_completion> class barrier : private Completion
{
    static_assert(Scope == thread_scope_block || Scope == thread_scope_thread,
                  "softgpu-cc supports barriers of a block only: cuda::barrier<cuda::thread_scope_block>");

  public:
    typedef unsigned long long arrival_token;

    barrier() = default;
    barrier(std::ptrdiff_t expected, Completion completion = Completion()) : Completion(completion)
    {
        phases_.begin(static_cast<unsigned long long>(expected));
    }
    barrier(const barrier &) = delete;
    barrier &operator=(const barrier &) = delete;
    friend void init(barrier *self, std::ptrdiff_t expected, Completion completion = Completion())
    {
        new (self) barrier(expected, completion);
    }

    static constexpr std::ptrdiff_t max()
    {
        return ::softgpu::phases::most();
    }
    arrival_token arrive(std::ptrdiff_t count = 1)
    {
        return phases_.arrive(static_cast<unsigned long long>(count), static_cast<Completion &>(*this));
    }
    void arrive_and_drop()
    {
        --phases_.expected;
        arrive();
    }
    void arrive_and_wait()
    {
        phases_.wait(arrive());
    }
    void wait(arrival_token &&token) const
    {
        phases_.wait(token);
    }
    void wait_parity(bool odd) const
    {
        phases_.wait_parity(odd);
    }

  private:
    ::softgpu::phases phases_;
};

template <std::size_t Alignment> struct aligned_size_t {
    std::size_t value;

    explicit constexpr aligned_size_t(std::size_t bytes) : value(bytes)
    {
    }
    constexpr operator std::size_t() const
    {
        return value;
    }
};

template <thread_scope Scope, class Completion>
inline void
memcpy_async(void *to, const void *from, std::size_t bytes, barrier<Scope, Completion> &)
{
    __builtin_memcpy(to, from, bytes);
}

template <class Group, thread_scope Scope, class Completion>
inline void
memcpy_async(const Group &group, void *to, const void *from, std::size_t bytes, barrier<Scope, Completion> &)
{
    ::softgpu::copy_share(group, to, from, bytes);
}

} // namespace cuda

#endif

/*
 * softgpu/phases.h - what <cuda/barrier>, <cuda/pipeline> and their C relatives are made of: a count of arrivals, phase
 * by phase, and copies. CUDA C++ Programming Guide, "Asynchronous Barriers" and "Asynchronous Data Copies".
 *
 * A copy that a GPU would do in the background is done at once by who asks for it, so waiting for copies is waiting for
 * arrivals. Threads of a block take turns on one OS thread: nothing here is atomic, and no other block may take part.
 */
#ifndef SOFTGPU_PHASES_H
#define SOFTGPU_PHASES_H
#pragma GCC system_header

#include "softgpu/thread.h"

namespace softgpu
{

/* As large as the barriers of a GPU, whose counts have 20 bits, too. */
struct phases {
    unsigned long long phase : 24, missing : 20, expected : 20;

    static constexpr unsigned most()
    {
        return (1u << 20) - 1;
    }
    void begin(unsigned long long count)
    {
        if (count > most())
            softgpu_kernel_fatal("a barrier for %llu arrivals is made; at most %u can be expected", count, most());
        phase = 0;
        missing = expected = count;
    }

    /* The last arrival of a phase calls completed(), before the others continue. Returns the phase. */
    template <class Completed> unsigned long long arrive(unsigned long long count, Completed completed)
    {
        const unsigned long long now = phase;
        if (count > missing)
            softgpu_kernel_fatal("%llu arrivals at a barrier that waits for %u", count, static_cast<unsigned>(missing));
        missing -= count;
        if (missing == 0) {
            completed();
            missing = expected;
            ++phase;
            softgpu_wake(this);
        }
        return now;
    }
    void wait(unsigned long long token) const
    {
        while (phase == token)
            softgpu_wait(this);
    }

    /* Until the phase that runs is an even one, or, if `odd` is 0, an odd one. */
    void wait_parity(unsigned odd) const
    {
        while ((phase & 1) == odd)
            softgpu_wait(this);
    }
};

/* The part of the calling thread: all threads of the group call it. */
template <class Group>
inline void
copy_share(const Group &group, void *to, const void *from, size_t bytes)
{
    const size_t threads = group.size(), rank = group.thread_rank();
    const size_t begin = bytes * rank / threads, end = bytes * (rank + 1) / threads;
    __builtin_memcpy(static_cast<char *>(to) + begin, static_cast<const char *>(from) + begin, end - begin);
}

inline void
nothing_completed()
{
}

} // namespace softgpu

#endif

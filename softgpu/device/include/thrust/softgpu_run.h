/*
 * softgpu_run.h - how the stand-in's Thrust computes: each algorithm is one launch of a kernel of one thread, which
 * runs a function of the C++ standard library over raw pointers, in the stream of its policy; the call returns when it
 * is over, as Thrust's does. So an algorithm has its place in the order of streams, and a library that watches launches
 * sees the memory that it works on among the kernel's arguments.
 *
 * With iterators of the host an algorithm runs in the calling thread. C++17.
 */
#ifndef SOFTGPU_THRUST_RUN_H
#define SOFTGPU_THRUST_RUN_H
#pragma GCC system_header

#include "softgpu/run_function.h"

#include <iterator>
#include <stdexcept>
#include <string>
#include <thrust/version.h>
#include <tuple>
#include <type_traits>
#include <utility>

namespace thrust
{

struct system_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

namespace softgpu_detail
{

inline void
check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        throw system_error(std::string("thrust: ") + what + ": " + cudaGetErrorString(error));
}

template <class F>
inline void
run_on_device(cudaStream_t stream, F f)
{
    ::softgpu::launch_function(stream, std::move(f));
    check(cudaGetLastError(), "a launch");
    check(cudaStreamSynchronize(stream), "an algorithm");
}

/* A value that a launch gives back. */
template <class T> struct result {
    T *place = nullptr;

    result()
    {
        check(cudaMalloc(&place, sizeof(T)), "memory for a result");
    }
    result(const result &) = delete;
    result &operator=(const result &) = delete;
    ~result()
    {
        (void)cudaFree(place);
    }
    T get() const
    {
        alignas(T) char bytes[sizeof(T)];
        check(cudaMemcpy(bytes, place, sizeof(T), cudaMemcpyDeviceToHost), "reading a result");
        return *reinterpret_cast<T *>(bytes);
    }
};

} // namespace softgpu_detail

/* ---- policies: where, and in which stream ---- */

struct host_execution_policy {
};

struct device_execution_policy {
    cudaStream_t stream = nullptr;

    device_execution_policy on(cudaStream_t where) const
    {
        return {where};
    }
    template <class Allocator> device_execution_policy operator()(Allocator &&) const
    {
        return *this;
    }
};

inline constexpr host_execution_policy host{}, seq{};
inline constexpr device_execution_policy device{};

namespace cuda
{
inline constexpr device_execution_policy par{}, par_nosync{};
} // namespace cuda

namespace system
{
namespace cuda = ::thrust::cuda;
} // namespace system

namespace softgpu_detail
{
template <class P>
inline constexpr bool is_policy = std::is_base_of<host_execution_policy, std::decay_t<P>>::value ||
                                  std::is_base_of<device_execution_policy, std::decay_t<P>>::value;
template <class P> using if_policy = std::enable_if_t<is_policy<P>, int>;
template <class P> using if_no_policy = std::enable_if_t<!is_policy<P>, int>;

/* Which of the two an iterator means, and what a kernel sees of it; specialised for those of device memory. */
template <class It, class = void> struct traits {
    static constexpr bool is_device = false, is_host = false; /* counting and the like: either */
    static It raw(It it)
    {
        return it;
    }
};

template <class It>
auto
raw(const It &it)
{
    return traits<It>::raw(it);
}

template <class... It> inline constexpr bool any_on_device = (traits<std::decay_t<It>>::is_device || ...);

/* f(raw iterators...), where they lie. */
template <class F, class... It>
inline void
run(host_execution_policy, F f, const It &...its)
{
    f(raw(its)...);
}

template <class F, class... It>
inline void
run(device_execution_policy policy, F f, const It &...its)
{
    run_on_device(policy.stream, [f, tuple = std::make_tuple(raw(its)...)]() mutable { std::apply(f, tuple); });
}

/* The same with a value. */
template <class T, class F, class... It>
inline T
get(host_execution_policy, F f, const It &...its)
{
    return f(raw(its)...);
}

template <class T, class F, class... It>
inline T
get(device_execution_policy policy, F f, const It &...its)
{
    result<T> out;
    T *place = out.place;
    run(
        policy, [f, place](auto... raws) mutable { ::new (static_cast<void *>(place)) T(f(raws...)); }, its...);
    return out.get();
}

/* The policy of a call that has none: by its iterators. */
template <class... It>
inline constexpr auto
policy_of()
{
    if constexpr (any_on_device<It...>)
        return device_execution_policy{};
    else
        return host_execution_policy{};
}
} // namespace softgpu_detail

template <class It> using value_of = typename std::iterator_traits<It>::value_type;

/* name(first, ...) for name(policy, first, ...): the policy comes from the iterators among the arguments. */
#define SOFTGPU_WITHOUT_POLICY(name)                                                                            \
    template <class It, class... A, softgpu_detail::if_no_policy<It> = 0> inline auto name(It first, A... more) \
    {                                                                                                           \
        return ::thrust::name(softgpu_detail::policy_of<It, A...>(), first, more...);                           \
    }

} // namespace thrust

#endif

/*
 * kernels.cu - the kernels of a plan by state: what a rank's step has changed in what stays, and what all ranks' steps
 * have (tools/plan/trainer/by_state.c).
 *
 * Compiled by nvcc for GPUs and, through stand_in.cu, by softgpu-cc for the stand-in; launched with any number of
 * threads and blocks, which take chunks in turn. They touch nothing outside of the chunks.
 *
 * A word with the bits that it had has the change 0, and a word whose mean is 0 keeps its bits: -0.0, infinities and
 * NaN stay what they are.
 */
#include "tools/plan/trainer/kernels/state.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <string.h>

template <typename To, typename From>
__device__ static To
same_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bits");
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}

/* By type: the bits of an element, and the type of its change. */
template <typename Bits, typename Wide> struct plain {
    using bits = Bits;
    using wide = Wide;
    __device__ static Wide widen(Bits bits)
    {
        return same_bits<Wide>(bits);
    }
    __device__ static Bits narrow(Wide value)
    {
        return same_bits<Bits>(value);
    }
};

#define OF_16_BITS(name, widened, narrowed)                  \
    struct name {                                            \
        using bits = unsigned short;                         \
        using wide = float;                                  \
        __device__ static float widen(unsigned short bits)   \
        {                                                    \
            return widened;                                  \
        }                                                    \
        __device__ static unsigned short narrow(float value) \
        {                                                    \
            return narrowed;                                 \
        }                                                    \
    };
OF_16_BITS(float16, __half2float(__ushort_as_half(bits)), __half_as_ushort(__float2half_rn(value)))
OF_16_BITS(bfloat16, __bfloat162float(__ushort_as_bfloat16(bits)), __bfloat16_as_ushort(__float2bfloat16_rn(value)))

using float32 = plain<unsigned, float>;
using float64 = plain<unsigned long long, double>;
using whole32 = plain<unsigned, unsigned>; /* the same with a sign */
using whole64 = plain<unsigned long long, unsigned long long>;

/* ---- elements of chunks ---- */

enum { VALUE = 1, BEGIN = 2, CHANGE = 4 }; /* what a work reads of an element */

/* N elements that are loaded or stored together. */
template <typename Element, unsigned N> struct alignas(sizeof(Element) * N) together {
    Element at[N];
};

template <bool is_read, typename Vector>
__device__ static __forceinline__ Vector
load(uint64_t address, unsigned i)
{
    if constexpr (is_read)
        return ((const Vector *)address)[i];
    return Vector{};
}

/* Elements [first, end) of a chunk, in groups of N, AT_ONCE of them under way before the first is stored. */
template <typename Format, unsigned N, unsigned AT_ONCE, typename Work>
__device__ static __forceinline__ void
each_group(const state_chunk &chunk, unsigned first, unsigned end, Work &work)
{
    using bits = together<typename Format::bits, N>;
    using wide = together<typename Format::wide, N>;
    using out = together<typename Work::template out<Format>, N>;
#ifdef DDPRUN_STAND_IN
    const unsigned thread = 0, step = 1;
#else
    const unsigned thread = threadIdx.x, step = blockDim.x;
#endif
    out *const to = (out *)(Work::writes == VALUE ? chunk.value : Work::writes == BEGIN ? chunk.begin : chunk.change);
    unsigned i = first / N + thread;
    for (; i + (AT_ONCE - 1) * step < end / N; i += AT_ONCE * step) {
        bits value[AT_ONCE], begin[AT_ONCE];
        wide change[AT_ONCE];
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; ++k) {
            value[k] = load<(Work::reads & VALUE) != 0, bits>(chunk.value, i + k * step);
            begin[k] = load<(Work::reads & BEGIN) != 0, bits>(chunk.begin, i + k * step);
            change[k] = load<(Work::reads & CHANGE) != 0, wide>(chunk.change, i + k * step);
        }
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; ++k) {
            out made;
#pragma unroll
            for (unsigned j = 0; j < N; ++j)
                made.at[j] = work.template of<Format>(value[k].at[j], begin[k].at[j], change[k].at[j]);
            to[i + k * step] = made;
        }
    }
    if constexpr (AT_ONCE > 1)
        each_group<Format, N, 1>(chunk, (i - thread) * N, end, work);
}

/* A chunk, by all threads of a block; of the stand-in by one, with vector instructions. */
template <typename Format, typename Work>
__device__ static void
each(const state_chunk &chunk, Work &work)
{
    unsigned grouped = 0;
#ifndef DDPRUN_STAND_IN
    constexpr unsigned N = 16 / sizeof(typename Format::wide);
    if (((chunk.value | chunk.begin | chunk.change) & 15) == 0)
        grouped = chunk.count / N * N;
    each_group<Format, N, (Work::reads & (Work::reads - 1)) == 0 ? 4 : 2>(chunk, 0, grouped, work);
#endif
    each_group<Format, 1, 1>(chunk, grouped, chunk.count, work);
}

template <typename Format>
__device__ static __forceinline__ typename Format::wide
difference(typename Format::bits value, typename Format::bits begin)
{
    return value == begin ? typename Format::wide(0) : Format::widen(value) - Format::widen(begin);
}

/* ---- works ---- */

template <bool back> struct keeping {
    static constexpr unsigned reads = back ? BEGIN : VALUE, writes = back ? VALUE : BEGIN;
    template <typename Format> using out = typename Format::bits;
    template <typename Format>
    __device__ out<Format> of(typename Format::bits value, typename Format::bits begin, typename Format::wide)
    {
        return back ? begin : value;
    }
    __device__ void end(unsigned)
    {
    }
};

struct returning {
    state_found *found;
    unsigned written = 0;
    static constexpr unsigned reads = VALUE | BEGIN, writes = VALUE;
    template <typename Format> using out = typename Format::bits;
    template <typename Format>
    __device__ out<Format> of(typename Format::bits value, typename Format::bits begin, typename Format::wide)
    {
        written |= (unsigned)(value != begin);
        return begin;
    }
    __device__ void end(unsigned chunk)
    {
        if (written != 0)
            found->written = chunk + 1;
        written = 0;
    }
};

/* Whether bits are those of a whole number, or of two beside each other; of numbers of four or eight bytes. */
template <typename Bits>
__device__ static __forceinline__ bool
is_whole(Bits bits)
{
    const unsigned low = (unsigned)bits, high = (unsigned)((unsigned long long)bits >> 32);
    return low <= 0xFFFF && high <= 0xFFFF && (low | high) != 0;
}

template <bool adds> struct changing {
    state_found *found; /* NULL: this is not looked for */
    unsigned turned = 0;
    static constexpr unsigned reads = VALUE | BEGIN | (adds ? CHANGE : 0), writes = CHANGE;
    template <typename Format> using out = typename Format::wide;
    template <typename Format>
    __device__ out<Format> of(typename Format::bits value, typename Format::bits begin, typename Format::wide change)
    {
        if (sizeof(value) >= sizeof(float))
            turned |= (unsigned)(begin == 0 && is_whole(value));
        return adds ? difference<Format>(value, begin) + change : difference<Format>(value, begin);
    }
    __device__ void end(unsigned chunk)
    {
        if (turned != 0 && found != nullptr)
            found->turned = chunk + 1;
        turned = 0;
    }
};

struct dividing {
    double by;
    static constexpr unsigned reads = CHANGE, writes = CHANGE;
    template <typename Format> using out = typename Format::wide;
    template <typename Format>
    __device__ out<Format> of(typename Format::bits, typename Format::bits, typename Format::wide change)
    {
        return change / (out<Format>)by;
    }
    __device__ void end(unsigned)
    {
    }
};

/* Whether a change is the mean, as far as rounding allows; what is not a number is not. */
template <typename Number>
__device__ static __forceinline__ bool
is_mean(Number own, Number mean)
{
    return (mean > own ? mean - own : own - mean) <= (own < 0 ? -own : own) * Number(4e-6);
}

template <bool looks> struct applying {
    struct state_mean of_mean;
    state_found *found;
    unsigned differs = 0, changed = 0;
    static constexpr unsigned reads = BEGIN | CHANGE | (looks ? VALUE : 0), writes = VALUE;
    template <typename Format> using out = typename Format::bits;
    template <typename Format>
    __device__ out<Format> of(typename Format::bits value, typename Format::bits begin, typename Format::wide change)
    {
        using wide = typename Format::wide;
        if (of_mean.times != of_mean.under)
            change = change * (wide)of_mean.times / (wide)of_mean.under;
        if (looks) {
            using number = decltype(wide() + 1.0f); /* float of floats, double of doubles */
            differs |= (unsigned)!is_mean<number>(difference<Format>(value, begin), change);
            changed |= (unsigned)(change != wide(0));
        }
        return change == wide(0) ? begin : Format::narrow(Format::widen(begin) + change);
    }
    __device__ void end(unsigned)
    {
        if (differs != 0)
            found->differs = 1;
        if (changed != 0)
            found->changed = 1;
    }
};

/* Lets `work` do each chunk of the table with elements of its type; blocks take chunks by turns. */
template <typename Work>
__device__ static void
each_chunk(const state_chunk *chunks, unsigned count, Work work)
{
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
        const state_chunk chunk = chunks[i];
        switch (chunk.type) {
        case 1:
            each<float32>(chunk, work);
            break;
        case 2:
            each<float64>(chunk, work);
            break;
        case 3:
            each<float16>(chunk, work);
            break;
        case 4:
            each<bfloat16>(chunk, work);
            break;
        case 5:
        case 8:
            each<whole32>(chunk, work);
            break;
        default:
            each<whole64>(chunk, work);
        }
        work.end(i);
    }
}

/* begin = value; `back`: value = begin. */
extern "C" __global__ void
ddprun_state_keep(const state_chunk *chunks, unsigned count, unsigned back)
{
    if (back != 0)
        each_chunk(chunks, count, keeping<true>{});
    else
        each_chunk(chunks, count, keeping<false>{});
}

/* value = begin, which it was. */
extern "C" __global__ void
ddprun_state_return(const state_chunk *chunks, unsigned count, state_found *found)
{
    each_chunk(chunks, count, returning{found});
}

/* change = value - begin; `adds`: the change so far is added. */
extern "C" __global__ void
ddprun_state_change(const state_chunk *chunks, unsigned count, unsigned adds, state_found *found)
{
    if (adds != 0)
        each_chunk(chunks, count, changing<true>{found});
    else
        each_chunk(chunks, count, changing<false>{found});
}

/* change = change / by. */
extern "C" __global__ void
ddprun_state_divide(const state_chunk *chunks, unsigned count, double by)
{
    each_chunk(chunks, count, dividing{by});
}

/* value = begin + mean(change); `found` NULL: nothing is looked for. */
extern "C" __global__ void
ddprun_state_apply(const state_chunk *chunks, unsigned count, struct state_mean mean, state_found *found)
{
    if (found != nullptr)
        each_chunk(chunks, count, applying<true>{mean, found});
    else
        each_chunk(chunks, count, applying<false>{mean, nullptr});
}

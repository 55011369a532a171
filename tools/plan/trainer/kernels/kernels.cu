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

struct float16 {
    using bits = unsigned short;
    using wide = float;
    __device__ static float widen(unsigned short bits)
    {
        return __half2float(__ushort_as_half(bits));
    }
    __device__ static unsigned short narrow(float value)
    {
        return __half_as_ushort(__float2half_rn(value));
    }
};

struct bfloat16 {
    using bits = unsigned short;
    using wide = float;
    __device__ static float widen(unsigned short bits)
    {
        return __bfloat162float(__ushort_as_bfloat16(bits));
    }
    __device__ static unsigned short narrow(float value)
    {
        return __bfloat16_as_ushort(__float2bfloat16_rn(value));
    }
};

using float32 = plain<unsigned, float>;
using float64 = plain<unsigned long long, double>;
using whole32 = plain<unsigned, unsigned>; /* the same with a sign */
using whole64 = plain<unsigned long long, unsigned long long>;

/* work(i) for each element, by all threads of a block. */
template <typename Work>
__device__ static __forceinline__ void
each(unsigned count, Work work)
{
#ifdef DDPRUN_STAND_IN
    for (unsigned i = 0; i < count; ++i) /* by one thread, with vector instructions */
        work(i);
#else
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
        work(i);
#endif
}

template <typename Format>
__device__ static __forceinline__ typename Format::wide
difference(typename Format::bits value, typename Format::bits begin)
{
    return value == begin ? typename Format::wide(0) : Format::widen(value) - Format::widen(begin);
}

struct keeping {
    bool back;
    unsigned number;
    template <typename Format> __device__ void chunk(const state_chunk &of) const
    {
        using bits = typename Format::bits;
        bits *to = (bits *)(back ? of.value : of.begin);
        const bits *from = (const bits *)(back ? of.begin : of.value);
        each(of.count, [=](unsigned i) { to[i] = from[i]; });
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

struct changing {
    bool adds;
    state_found *found; /* NULL: this is not looked for */
    unsigned number;    /* of the chunk */
    template <typename Format> __device__ void chunk(const state_chunk &of) const
    {
        const auto *value = (const typename Format::bits *)of.value, *begin = (const typename Format::bits *)of.begin;
        auto *change = (typename Format::wide *)of.change;
        if (adds)
            each(of.count, [=](unsigned i) { change[i] = difference<Format>(value[i], begin[i]) + change[i]; });
        else
            each(of.count, [=](unsigned i) { change[i] = difference<Format>(value[i], begin[i]); });
        bool turned = false;
        if (found != nullptr && sizeof(*value) >= sizeof(float))
            each(of.count, [&](unsigned i) { turned |= begin[i] == 0 && is_whole(value[i]); });
        if (turned)
            found->turned = number + 1;
    }
};

struct dividing {
    double by;
    unsigned number;
    template <typename Format> __device__ void chunk(const state_chunk &of) const
    {
        auto *change = (typename Format::wide *)of.change;
        each(of.count, [=, *this](unsigned i) { change[i] = change[i] / (typename Format::wide)by; });
    }
};

/* Whether a change is the mean, as far as rounding allows; what is not a number is not. */
__device__ static __forceinline__ bool
is_mean(double own, double mean)
{
    return (mean > own ? mean - own : own - mean) <= (own < 0 ? -own : own) * 4e-6;
}

struct applying {
    struct state_mean of_mean;
    state_found *found; /* NULL: this is not looked for */
    unsigned number;

    template <typename Wide> __device__ Wide mean(Wide change) const
    {
        if (of_mean.times != of_mean.under)
            change = change * (Wide)of_mean.times / (Wide)of_mean.under;
        return change;
    }

    template <typename Format> __device__ void chunk(const state_chunk &of) const
    {
        using wide = typename Format::wide;
        auto *value = (typename Format::bits *)of.value;
        const auto *begin = (const typename Format::bits *)of.begin;
        const auto *change = (const wide *)of.change;
        if (found != nullptr)
            look<Format>(value, begin, change, of.count);
        each(of.count, [=, *this](unsigned i) {
            const wide here = mean(change[i]);
            value[i] = here == wide(0) ? begin[i] : Format::narrow(Format::widen(begin[i]) + here);
        });
    }

    template <typename Format>
    __device__ void look(const typename Format::bits *value, const typename Format::bits *begin,
                         const typename Format::wide *change, unsigned count) const
    {
        bool differs = false, changed = false;
        each(count, [&](unsigned i) {
            const auto here = mean(change[i]);
            differs |= !is_mean(difference<Format>(value[i], begin[i]), here);
            changed |= here != typename Format::wide(0);
        });
        if (differs)
            found->differs = 1;
        if (changed)
            found->changed = 1;
    }
};

template <typename Work>
__device__ static void
each_chunk(const state_chunk *chunks, unsigned count, Work work)
{
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
        work.number = i;
        switch (chunks[i].type) {
        case 1:
            work.template chunk<float32>(chunks[i]);
            break;
        case 2:
            work.template chunk<float64>(chunks[i]);
            break;
        case 3:
            work.template chunk<float16>(chunks[i]);
            break;
        case 4:
            work.template chunk<bfloat16>(chunks[i]);
            break;
        case 5:
        case 8:
            work.template chunk<whole32>(chunks[i]);
            break;
        default:
            work.template chunk<whole64>(chunks[i]);
        }
    }
}

/* begin = value; `back`: value = begin. */
extern "C" __global__ void
ddprun_state_keep(const state_chunk *chunks, unsigned count, unsigned back)
{
    each_chunk(chunks, count, keeping{back != 0, 0});
}

/* change = value - begin; `adds`: the change so far is added. */
extern "C" __global__ void
ddprun_state_change(const state_chunk *chunks, unsigned count, unsigned adds, state_found *found)
{
    each_chunk(chunks, count, changing{adds != 0, found, 0});
}

/* change = change / by. */
extern "C" __global__ void
ddprun_state_divide(const state_chunk *chunks, unsigned count, double by)
{
    each_chunk(chunks, count, dividing{by, 0});
}

/* value = begin + mean(change). */
extern "C" __global__ void
ddprun_state_apply(const state_chunk *chunks, unsigned count, struct state_mean mean, state_found *found)
{
    each_chunk(chunks, count, applying{mean, found, 0});
}

/*
 * outer.cu - the kernels of an outer step: parameters that ranks have averaged move the anchor, from which the average
 * began, by SGD with Nesterov's momentum, and become what the anchor is then (comm/wire.h).
 *
 * Built as wire.cu is, behind it; launched by comm/outer.c with any number of threads and blocks. The anchor and its
 * velocity are float32, or float64 for float64. They touch nothing outside of the `count` values.
 */

/* Parameters in 16 bits began as the rounded anchor: what was rounded off is no part of the ranks' updates. */
template <typename Format, bool moves, typename Stored, typename Wide>
__device__ static void
step_value(Stored &value, Wide &anchor, Wide &velocity, Wide rate, Wide momentum)
{
    Wide gradient = Format::widen(Format::narrow(anchor)) - Format::widen(value);
    if (moves) {
        velocity = momentum * velocity + gradient;
        gradient += momentum * velocity;
    }
    anchor -= rate * gradient;
    value = Format::narrow(anchor);
}

/* `count` groups of N values from thread to thread, so many of each at a time: what it waits for is memory. Returns
 * where it has stopped. */
template <typename Format, bool moves, unsigned N, unsigned at_once, typename Stored, typename Wide>
__device__ static unsigned
step_groups(Stored *values, Wide *anchor, Wide *velocity, unsigned i, unsigned count, Wide rate, Wide momentum)
{
    auto *const v = (together<Stored, N> *)values;
    auto *const a = (together<Wide, N> *)anchor, *const m = (together<Wide, N> *)velocity;
    for (; i + (at_once - 1) * blockDim.x < count; i += at_once * blockDim.x) {
        together<Stored, N> value[at_once];
        together<Wide, N> from[at_once], moving[at_once];
#pragma unroll
        for (unsigned k = 0; k < at_once; ++k) {
            value[k] = v[i + k * blockDim.x], from[k] = a[i + k * blockDim.x];
            if (moves)
                moving[k] = m[i + k * blockDim.x];
        }
#pragma unroll
        for (unsigned k = 0; k < at_once; ++k) {
#pragma unroll
            for (unsigned n = 0; n < N; ++n)
                step_value<Format, moves>(value[k].at[n], from[k].at[n], moving[k].at[n], rate, momentum);
            v[i + k * blockDim.x] = value[k], a[i + k * blockDim.x] = from[k];
            if (moves)
                m[i + k * blockDim.x] = moving[k];
        }
    }
    return i;
}

/* A chunk by all threads of a block: in groups of 16 bytes where all three can be brought to them. */
template <typename Format, bool moves, typename Stored, typename Wide>
__device__ static void
step_chunk(Stored *values, Wide *anchor, Wide *velocity, unsigned count, Wide rate, Wide momentum)
{
    constexpr unsigned each = 16 / sizeof(Stored), at_once = sizeof(Stored) < sizeof(Wide) && moves ? 1 : 2;
    unsigned head = (unsigned)(-(uintptr_t)values & 15) / (unsigned)sizeof(Stored);
    head = head < count && (((uintptr_t)(anchor + head) | (uintptr_t)(velocity + head)) & 15) == 0 ? head : count;
    const unsigned groups = (count - head) / each, rest = head + groups * each, self = threadIdx.x;
    step_groups<Format, moves, 1, 1>(values, anchor, velocity, self, head, rate, momentum);
    const unsigned i = step_groups<Format, moves, each, at_once>(values + head, anchor + head, velocity + head, self,
                                                                 groups, rate, momentum);
    step_groups<Format, moves, each, 1>(values + head, anchor + head, velocity + head, i, groups, rate, momentum);
    step_groups<Format, moves, 1, 1>(values + rest, anchor + rest, velocity + rest, self, count - rest, rate, momentum);
}

template <typename Format, typename Stored, typename Wide>
__device__ static void
step_outer(Stored *values, Wide *anchor, Wide *velocity, unsigned long long count, Wide rate, Wide momentum)
{
    const unsigned each = CHUNK_BYTES / sizeof(Stored);
    for (unsigned long long at = (unsigned long long)each * blockIdx.x; at < count; at += each * gridDim.x) {
        const unsigned here = (unsigned)(count - at < each ? count - at : each);
        if (velocity != nullptr)
            step_chunk<Format, true>(values + at, anchor + at, velocity + at, here, rate, momentum);
        else /* in its place what is aligned as the anchor is */
            step_chunk<Format, false>(values + at, anchor + at, anchor + at, here, rate, momentum);
    }
}

template <typename Format, typename Stored, typename Wide>
__device__ static void
set_anchor(const Stored *values, Wide *anchor, unsigned long long count)
{
    each_value<Stored>(count, [=](unsigned long long i) { anchor[i] = Format::widen(values[i]); });
}

#define OUTER_KERNELS(name, Format, Stored, Wide)                                                                 \
    extern "C" __global__ void ddprun_outer_##name(Stored *values, Wide *anchor, Wide *velocity,                  \
                                                   unsigned long long count, double rate, double momentum)        \
    {                                                                                                             \
        step_outer<Format>(values, anchor, velocity, count, (Wide)rate, (Wide)momentum);                          \
    }                                                                                                             \
    extern "C" __global__ void ddprun_anchor_##name(const Stored *values, Wide *anchor, unsigned long long count) \
    {                                                                                                             \
        set_anchor<Format>(values, anchor, count);                                                                \
    }

OUTER_KERNELS(float32, plain<float>, float, float)
OUTER_KERNELS(float64, plain<double>, double, double)
OUTER_KERNELS(float16, float16, unsigned short, float)
OUTER_KERNELS(bfloat16, bfloat16, unsigned short, float)

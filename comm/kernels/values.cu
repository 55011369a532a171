/*
 * values.cu - this rank's values beside rank 0's: how far apart they are, and what a sample of them holds
 * (comm/kernels/values.h). Rank 0's values are taken.
 *
 * Built as wire.cu is, after it; launched by comm/values.c with any number of threads and blocks. Elements of the chunk
 * are all that is touched, besides results.
 */
#include "comm/kernels/values.h"

__device__ static bool
is_finite(double value)
{
    return value - value == 0;
}

template <typename Format, typename Stored>
__device__ static void
compare_values(const values_chunk &chunk, values_found *found)
{
    Stored *const mine = (Stored *)chunk.mine;
    const Stored *const theirs = (const Stored *)chunk.theirs;
    unsigned long long largest = 0, differing = 0, unlike = 0, greatest = 0;
    each_value<Stored>(chunk.count, [&](unsigned long long i) {
        const double a = (double)Format::widen(mine[i]), b = (double)Format::widen(theirs[i]);
        const double d = a > b ? a - b : b - a, size = fabs(a); /* of -0, too */
        const unsigned long long magnitude = is_finite(a) ? __float_as_uint((float)size) : 0;
        greatest = magnitude > greatest ? magnitude : greatest;
        unlike += is_finite(a) != is_finite(b);
        if (is_finite(d) && d != 0) {
            const unsigned long long bits = __float_as_uint((float)d);
            const unsigned long long key = bits << 32 | ((chunk.first + i) & 0xffffffffu);
            largest = key > largest ? key : largest;
            ++differing;
        }
        mine[i] = theirs[i];
    });
    if (greatest != 0)
        atomicMax((unsigned long long *)&found->greatest, greatest);
    if (differing != 0) {
        atomicMax((unsigned long long *)&found->largest, largest);
        atomicAdd((unsigned long long *)&found->differing, differing);
    }
    if (unlike != 0)
        atomicAdd((unsigned long long *)&found->unlike, unlike);
}

template <typename Format, typename Stored>
__device__ static void
sample_one(const values_chunk &chunk, const values_sample &sample, unsigned long long i, unsigned long long element)
{
    if (element < chunk.first || element - chunk.first >= chunk.count)
        return;
    const double a = (double)Format::widen(((const Stored *)chunk.mine)[element - chunk.first]);
    const double b = (double)Format::widen(((const Stored *)chunk.theirs)[element - chunk.first]);
    ((double *)sample.value)[i] = sample.of_zero != 0 ? b : a;
    if (sample.apart != 0)
        ((double *)sample.apart)[i] = a - b;
}

template <typename Format, typename Stored>
__device__ static void
sample_values(const values_chunk &chunk, const values_sample &sample)
{
    const unsigned long long self = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long end = (chunk.first + chunk.count) * sample.count / sample.elements + 1;
    end = end < sample.count ? end : sample.count;
    for (unsigned long long i = chunk.first * sample.count / sample.elements + self; i < end; i += threads)
        sample_one<Format, Stored>(chunk, sample, i, values_sampled_element(&sample, i));
    for (unsigned long long i = self; i < sample.marked; i += threads)
        sample_one<Format, Stored>(chunk, sample, sample.count + i, sample.marks[i]);
}

#define VALUES_KERNELS(name, Format, Stored)                                                                       \
    extern "C" __global__ void ddprun_compare_values_##name(struct values_chunk chunk, struct values_found *found) \
    {                                                                                                              \
        compare_values<Format, Stored>(chunk, found);                                                              \
    }                                                                                                              \
    extern "C" __global__ void ddprun_sample_values_##name(struct values_chunk chunk, struct values_sample sample) \
    {                                                                                                              \
        sample_values<Format, Stored>(chunk, sample);                                                              \
    }

VALUES_KERNELS(float32, plain<float>, float)
VALUES_KERNELS(float64, plain<double>, double)
VALUES_KERNELS(float16, float16, unsigned short)
VALUES_KERNELS(bfloat16, bfloat16, unsigned short)

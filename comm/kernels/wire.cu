/*
 * wire.cu - the kernels that put a bucket's gradients together and apart again, converting and scaling on the way.
 *
 * Compiled by nvcc for GPUs and, through stand_in.cu, by softgpu-cc for the stand-in; loaded by comm/kernels.c,
 * launched by comm/wire.c with any number of threads and blocks. Each block takes chunks of the table in turn.
 *
 * They must never touch a byte outside of the chunks: the memory around them is the trainer's.
 */
#include "comm/kernels/chunk.h"
#include "comm/kernels/nonfinite.h"

#include <cmath>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* ---- copies ---- */

template <typename Word>
__device__ static void
copy_words(unsigned char *to, const unsigned char *from, unsigned count)
{
    Word *out = (Word *)to;
    const Word *in = (const Word *)from;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
        out[i] = in[i];
}

/* The widest words that both sides can be brought to, and bytes before and behind them. */
template <typename Word>
__device__ static void
copy_aligned(unsigned char *to, const unsigned char *from, unsigned bytes)
{
    unsigned head = (unsigned)(-(uintptr_t)to & (sizeof(Word) - 1));
    head = head < bytes ? head : bytes;
    unsigned middle = (bytes - head) / sizeof(Word) * sizeof(Word);
    copy_words<unsigned char>(to, from, head);
    copy_words<Word>(to + head, from + head, middle / sizeof(Word));
    copy_words<unsigned char>(to + head + middle, from + head + middle, bytes - head - middle);
}

__device__ static void
copy(unsigned char *to, const unsigned char *from, unsigned bytes)
{
    unsigned apart = (unsigned)((uintptr_t)to ^ (uintptr_t)from);
    if ((apart & 15) == 0)
        copy_aligned<uint4>(to, from, bytes);
    else if ((apart & 3) == 0)
        copy_aligned<unsigned>(to, from, bytes);
    else if ((apart & 1) == 0)
        copy_aligned<unsigned short>(to, from, bytes);
    else
        copy_words<unsigned char>(to, from, bytes);
}

/* What is packed is looked at as well: the second of the two finds it in the cache. */
extern "C" __global__ void
ddprun_pack(const struct chunk *chunks, unsigned count, unsigned char *bucket, float, struct nonfinite_look look)
{
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
        const unsigned char *from = (const unsigned char *)chunks[i].address;
        copy(bucket + chunks[i].at, from, (unsigned)chunks[i].bytes);
        look_at_chunk(from, (unsigned)chunks[i].bytes, look);
    }
}

extern "C" __global__ void
ddprun_unpack(const struct chunk *chunks, unsigned count, const unsigned char *bucket)
{
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x)
        copy((unsigned char *)chunks[i].address, bucket + chunks[i].at, (unsigned)chunks[i].bytes);
}

/* ---- copies that convert: float32 in the members, 16 bits in the bucket ---- */

/*
 * Round to nearest even; what is too large becomes an infinity, and infinities and NaNs stay what they are. The _all
 * forms are the stand-in's, where one thread moves a whole chunk: the same bits, by the processor's vector
 * instructions.
 */
struct float16 {
    static constexpr unsigned infinity = 0x7c00;
    __device__ static unsigned short narrow(float value)
    {
        return __half_as_ushort(__float2half_rn(value));
    }
    __device__ static float widen(unsigned short bits)
    {
        return __half2float(__ushort_as_half(bits));
    }
#ifdef DDPRUN_STAND_IN
    static constexpr auto narrow_all = softgpu_floats_to_halves;
    static constexpr auto widen_all = softgpu_halves_to_floats;
#endif
};

struct bfloat16 {
    static constexpr unsigned infinity = 0x7f80;
    __device__ static unsigned short narrow(float value)
    {
        return __bfloat16_as_ushort(__float2bfloat16_rn(value));
    }
    __device__ static float widen(unsigned short bits)
    {
        return __bfloat162float(__ushort_as_bfloat16(bits));
    }
#ifdef DDPRUN_STAND_IN
    static constexpr auto narrow_all = softgpu_floats_to_bfloats;
    static constexpr auto widen_all = softgpu_bfloats_to_floats;
#endif
};

/* How many values stand before the first from which four at a time can be moved on both sides; all if none does. */
__device__ static unsigned
values_before_vectors(const float *wide, const unsigned short *narrow, unsigned count)
{
    unsigned head = (unsigned)(-(uintptr_t)wide & 15) / 4;
    return head < count && ((uintptr_t)(narrow + head) & 7) == 0 ? head : count;
}

template <typename Format>
__device__ static void
narrow_values(unsigned short *to, const float *from, unsigned begin, unsigned end, float scale)
{
    for (unsigned i = begin + threadIdx.x; i < end; i += blockDim.x)
        to[i] = Format::narrow(from[i] * scale);
}

template <typename Format>
__device__ static void
narrow_chunk(unsigned short *to, const float *from, unsigned count, float scale)
{
#ifdef DDPRUN_STAND_IN
    if (blockDim.x == 1)
        return Format::narrow_all(to, from, count, scale);
#endif
    unsigned head = values_before_vectors(from, to, count), quads = (count - head) / 4;
    const float4 *in = (const float4 *)(from + head);
    ushort4 *out = (ushort4 *)(to + head);
    narrow_values<Format>(to, from, 0, head, scale);
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < quads; i += blockDim.x) {
        float4 value = in[i];
        out[i] = make_ushort4(Format::narrow(value.x * scale), Format::narrow(value.y * scale),
                              Format::narrow(value.z * scale), Format::narrow(value.w * scale));
    }
    narrow_values<Format>(to, from, head + 4 * quads, count, scale);
}

template <typename Format>
__device__ static void
widen_values(float *to, const unsigned short *from, unsigned begin, unsigned end, float scale)
{
    for (unsigned i = begin + threadIdx.x; i < end; i += blockDim.x)
        to[i] = Format::widen(from[i]) * scale;
}

template <typename Format>
__device__ static void
widen_chunk(float *to, const unsigned short *from, unsigned count, float scale)
{
#ifdef DDPRUN_STAND_IN
    if (blockDim.x == 1)
        return Format::widen_all(to, from, count, scale);
#endif
    unsigned head = values_before_vectors(to, from, count), quads = (count - head) / 4;
    const ushort4 *in = (const ushort4 *)(from + head);
    float4 *out = (float4 *)(to + head);
    widen_values<Format>(to, from, 0, head, scale);
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < quads; i += blockDim.x) {
        ushort4 bits = in[i];
        out[i] = make_float4(Format::widen(bits.x) * scale, Format::widen(bits.y) * scale,
                             Format::widen(bits.z) * scale, Format::widen(bits.w) * scale);
    }
    widen_values<Format>(to, from, head + 4 * quads, count, scale);
}

template <typename Format>
__device__ static void
pack_narrow(const struct chunk *chunks, unsigned count, unsigned short *bucket, float scale, const nonfinite_look &look)
{
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
        const float *from = (const float *)chunks[i].address;
        narrow_chunk<Format>(bucket + chunks[i].at / sizeof(float), from, (unsigned)(chunks[i].bytes / sizeof(float)),
                             scale);
        look_at_chunk((const unsigned char *)from, (unsigned)chunks[i].bytes, look);
    }
}

template <typename Format>
__device__ static void
unpack_widen(const struct chunk *chunks, unsigned count, const unsigned short *bucket, float scale)
{
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x)
        widen_chunk<Format>((float *)chunks[i].address, bucket + chunks[i].at / sizeof(float),
                            (unsigned)(chunks[i].bytes / sizeof(float)), scale);
}

extern "C" __global__ void
ddprun_pack_float16(const struct chunk *chunks, unsigned count, unsigned short *bucket, float scale,
                    struct nonfinite_look look)
{
    pack_narrow<float16>(chunks, count, bucket, scale, look);
}

extern "C" __global__ void
ddprun_unpack_float16(const struct chunk *chunks, unsigned count, const unsigned short *bucket, float scale)
{
    unpack_widen<float16>(chunks, count, bucket, scale);
}

extern "C" __global__ void
ddprun_pack_bfloat16(const struct chunk *chunks, unsigned count, unsigned short *bucket, float scale,
                     struct nonfinite_look look)
{
    pack_narrow<bfloat16>(chunks, count, bucket, scale, look);
}

extern "C" __global__ void
ddprun_unpack_bfloat16(const struct chunk *chunks, unsigned count, const unsigned short *bucket, float scale)
{
    unpack_widen<bfloat16>(chunks, count, bucket, scale);
}

/* ---- scaling: means over ranks, and ranks with unequal shares of a batch ---- */

template <typename Number> struct plain {
    __device__ static Number widen(Number value)
    {
        return value;
    }
    __device__ static Number narrow(Number value)
    {
        return value;
    }
};

/* Elements times a number, over another: rounded as the type's own product and quotient, */
template <typename Number> struct scaled {
    using element = Number;
    Number times, over;
    __device__ Number operator()(Number value) const
    {
        return value * times / over;
    }
};

/* or in 16 bits once, from a product in float32. What is finite stays so: no mean is larger than what it is the mean
 * of, but a sum may have been rounded up. */
template <typename Format> struct scaled_bits {
    using element = unsigned short;
    float factor;
    __device__ unsigned short operator()(unsigned short bits) const
    {
        const unsigned short product = Format::narrow(Format::widen(bits) * factor);
        const bool is_made = (product & 0x7fff) == Format::infinity && (bits & 0x7fff) != Format::infinity;
        return (unsigned short)(product - is_made);
    }
};

template <typename Number>
__device__ static scaled<Number>
scaling(const plain<Number> &, double times, double over)
{
    return {(Number)times, (Number)over};
}

template <typename Format>
__device__ static scaled_bits<Format>
scaling(const Format &, double times, double over)
{
    return {(float)(times / over)};
}

template <typename Work>
__device__ static uint4
each_of(uint4 words, const Work &work)
{
    typename Work::element elements[sizeof(words) / sizeof(typename Work::element)];
    memcpy(elements, &words, sizeof(words));
#pragma unroll
    for (unsigned i = 0; i < sizeof(elements) / sizeof(elements[0]); ++i)
        elements[i] = work(elements[i]);
    memcpy(&words, elements, sizeof(words));
    return words;
}

/* Four loads are under way before the first store. `to` may be `from`. */
template <typename Work>
__device__ static void
scale_vectors(uint4 *to, const uint4 *from, unsigned count, const Work &work)
{
    const unsigned step = blockDim.x;
    unsigned i = threadIdx.x;
    for (; i + 3 * step < count; i += 4 * step) {
        const uint4 a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
        to[i] = each_of(a, work);
        to[i + step] = each_of(b, work);
        to[i + 2 * step] = each_of(c, work);
        to[i + 3 * step] = each_of(d, work);
    }
    for (; i < count; i += step)
        to[i] = each_of(from[i], work);
}

template <typename Work>
__device__ static void
scale_elements(typename Work::element *to, const typename Work::element *from, unsigned count, const Work &work)
{
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
        to[i] = work(from[i]);
}

#ifdef DDPRUN_STAND_IN
/* One thread moves the whole chunk, 16 bits by the processor's vector instructions. */
template <typename Format>
static bool
scale_alone(unsigned short *to, const unsigned short *from, unsigned count, const scaled_bits<Format> &work)
{
    float wide[1024];
    for (unsigned at = 0; at < count; at += 1024) {
        unsigned here = count - at < 1024 ? count - at : 1024;
        Format::widen_all(wide, from + at, here, 1.0f);
        Format::narrow_all(to + at, wide, here, work.factor);
        for (unsigned i = 0; i < here; ++i)
            to[at + i] -= (to[at + i] & 0x7fff) == Format::infinity && !std::isinf(wide[i]);
    }
    return true;
}

template <typename Number>
static bool
scale_alone(Number *to, const Number *from, unsigned count, const scaled<Number> &work)
{
    for (unsigned i = 0; i < count; ++i)
        to[i] = from[i] * work.times / work.over;
    return true;
}
#endif

template <typename Work>
__device__ static void
scale_chunk(typename Work::element *to, const typename Work::element *from, unsigned count, const Work &work)
{
    const unsigned each = sizeof(uint4) / sizeof(*to);
#ifdef DDPRUN_STAND_IN
    if (blockDim.x == 1 && scale_alone(to, from, count, work))
        return;
#endif
    unsigned head = (unsigned)(-(uintptr_t)to & (sizeof(uint4) - 1)) / (unsigned)sizeof(*to);
    head = head < count && (((uintptr_t)to ^ (uintptr_t)from) & (sizeof(uint4) - 1)) == 0 ? head : count;
    const unsigned vectors = (count - head) / each;
    scale_elements(to, from, head, work);
    scale_vectors((uint4 *)(to + head), (const uint4 *)(from + head), vectors, work);
    scale_elements(to + head + vectors * each, from + head + vectors * each, count - head - vectors * each, work);
}

/* In place. */
template <typename Format, typename Stored>
__device__ static void
scale_values(Stored *values, unsigned long long count, double times, double over)
{
    const unsigned each = CHUNK_BYTES / sizeof(Stored);
    const auto work = scaling(Format(), times, over);
    for (unsigned long long at = (unsigned long long)each * blockIdx.x; at < count; at += each * gridDim.x)
        scale_chunk(values + at, values + at, (unsigned)(count - at < each ? count - at : each), work);
}

template <typename Format, typename Stored>
__device__ static void
pack_scaled(const struct chunk *chunks, unsigned count, unsigned char *bucket, double times, double over,
            const nonfinite_look &look)
{
    const auto work = scaling(Format(), times, over);
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
        const Stored *from = (const Stored *)chunks[i].address;
        scale_chunk((Stored *)(bucket + chunks[i].at), from, (unsigned)(chunks[i].bytes / sizeof(Stored)), work);
        look_at_chunk((const unsigned char *)from, (unsigned)chunks[i].bytes, look);
    }
}

template <typename Format, typename Stored>
__device__ static void
unpack_scaled(const struct chunk *chunks, unsigned count, const unsigned char *bucket, double times, double over)
{
    const auto work = scaling(Format(), times, over);
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x)
        scale_chunk((Stored *)chunks[i].address, (const Stored *)(bucket + chunks[i].at),
                    (unsigned)(chunks[i].bytes / sizeof(Stored)), work);
}

#define SCALING_KERNELS(name, Format, Stored)                                                                      \
    extern "C" __global__ void ddprun_scale_##name(Stored *values, unsigned long long count, double times,         \
                                                   double over)                                                    \
    {                                                                                                              \
        scale_values<Format>(values, count, times, over);                                                          \
    }                                                                                                              \
    extern "C" __global__ void ddprun_pack_scaled_##name(const struct chunk *chunks, unsigned count,               \
                                                         unsigned char *bucket, double times, double over,         \
                                                         struct nonfinite_look look)                               \
    {                                                                                                              \
        pack_scaled<Format, Stored>(chunks, count, bucket, times, over, look);                                     \
    }                                                                                                              \
    extern "C" __global__ void ddprun_unpack_scaled_##name(const struct chunk *chunks, unsigned count,             \
                                                           const unsigned char *bucket, double times, double over) \
    {                                                                                                              \
        unpack_scaled<Format, Stored>(chunks, count, bucket, times, over);                                         \
    }

SCALING_KERNELS(float32, plain<float>, float)
SCALING_KERNELS(float64, plain<double>, double)
SCALING_KERNELS(float16, float16, unsigned short)
SCALING_KERNELS(bfloat16, bfloat16, unsigned short)

/* work(i) for each of `count` values: blocks take chunks of them in turn. */
template <typename Stored, typename Work>
__device__ static void
each_value(unsigned long long count, Work work)
{
    const unsigned long long each = CHUNK_BYTES / sizeof(Stored), step = each * gridDim.x;
    for (unsigned long long begin = each * blockIdx.x; begin < count; begin += step) {
        unsigned here = (unsigned)(count - begin < each ? count - begin : each);
        for (unsigned i = threadIdx.x; i < here; i += blockDim.x)
            work(begin + i);
    }
}

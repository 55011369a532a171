/*
 * wire.cu - the kernels that put a bucket's gradients together and apart again, converting and scaling on the way.
 *
 * Compiled by nvcc for GPUs and, through stand_in.cu, by softgpu-cc for the stand-in; loaded by comm/kernels.c,
 * launched by comm/wire.c with any number of threads and blocks. Each block takes chunks of the table in turn.
 *
 * They must never touch a byte outside of the chunks: the memory around them is the trainer's.
 */
#include "comm/kernels/chunk.h"
#include "comm/kernels/hash.h"
#include "comm/kernels/nonfinite.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* ---- what becomes of an element on the way ---- */

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

/* Nothing: any word of memory. */
template <typename Word> struct copied {
    using from = Word;
    using to = Word;
    __device__ Word operator()(Word word) const
    {
        return word;
    }
    static void all(Word *to, const Word *from, unsigned count, const copied &)
    {
        memcpy(to, from, count * sizeof(Word));
    }
};

/* float32 in the members, 16 bits in the bucket. */
template <typename Format> struct narrowed {
    using from = float;
    using to = unsigned short;
    float scale;
    __device__ narrowed(double times, double over) : scale((float)(times / over))
    {
    }
    __device__ unsigned short operator()(float value) const
    {
        return Format::narrow(value * scale);
    }
#ifdef DDPRUN_STAND_IN
    static void all(unsigned short *to, const float *from, unsigned count, const narrowed &work)
    {
        Format::narrow_all(to, from, count, work.scale);
    }
#endif
};

template <typename Format> struct widened {
    using from = unsigned short;
    using to = float;
    float scale;
    __device__ widened(double times, double over) : scale((float)(times / over))
    {
    }
    __device__ float operator()(unsigned short bits) const
    {
        return Format::widen(bits) * scale;
    }
#ifdef DDPRUN_STAND_IN
    static void all(float *to, const unsigned short *from, unsigned count, const widened &work)
    {
        Format::widen_all(to, from, count, work.scale);
    }
#endif
};

/*
 * A quotient, rounded as the type's own, by a number that all elements have. A reciprocal of a power of two is exact.
 * Other quotients are corrected twice by their remainder, which a fused product computes exactly: P. Markstein,
 * Computation of elementary functions on the IBM RISC System/6000 processor, 1990. Zeros keep their sign. Very small
 * and very large values are divided; the stand-in divides all.
 */
template <typename Number> struct quotient {
    Number over, reciprocal;
    bool is_exact = false, is_middle = false;
#ifdef DDPRUN_STAND_IN
    __device__ explicit quotient(double by) : over((Number)by)
    {
    }
    __device__ Number operator()(Number value) const
    {
        return value / over;
    }
#else
    __device__ explicit quotient(double by) : over((Number)by), reciprocal(1 / over)
    {
        int exponent;
        is_middle = over >= Number(0x1p-16) && over <= Number(0x1p16);
        is_exact = is_middle && frexp(over, &exponent) == Number(0.5);
    }
    __device__ __forceinline__ Number corrected(Number quotient, Number value) const
    {
        return fma(fma(-quotient, over, value), reciprocal, quotient);
    }
    __device__ __forceinline__ Number operator()(Number value) const
    {
        const Number first = value * reciprocal, size = fabs(value);
        if (is_exact || value == 0)
            return first;
        if (is_middle && size >= Number(0x1p-90) && size <= Number(0x1p90))
            return corrected(corrected(first, value), value);
        return value / over;
    }
#endif
};

/* Times a number, over another: rounded as the type's own product and quotient, */
template <typename Number> struct scaled {
    using from = Number;
    using to = Number;
    Number times;
    quotient<Number> over;
    __device__ scaled(double times, double by) : times((Number)times), over(by)
    {
    }
    __device__ Number operator()(Number value) const
    {
        return over(value * times);
    }
    static void all(Number *to, const Number *from, unsigned count, const scaled &work)
    {
        for (unsigned i = 0; i < count; ++i)
            to[i] = from[i] * work.times / work.over.over;
    }
};

/* or in 16 bits once, from a product in float32. A quotient of what is finite stays so: no mean is larger than what it
 * is the mean of, but a sum may have been rounded up. A product with a weight may become an infinity. */
template <typename Format> struct scaled_bits {
    using from = unsigned short;
    using to = unsigned short;
    float factor;
    bool divides;
    __device__ scaled_bits(double times, double over) : factor((float)(times / over)), divides(times == 1)
    {
    }
    __device__ unsigned short operator()(unsigned short bits) const
    {
        const unsigned short product = Format::narrow(Format::widen(bits) * factor);
        const bool is_made = divides && (product & 0x7fff) == Format::infinity && (bits & 0x7fff) != Format::infinity;
        return (unsigned short)(product - is_made);
    }
#ifdef DDPRUN_STAND_IN
    static void all(unsigned short *to, const unsigned short *from, unsigned count, const scaled_bits &work)
    {
        float wide[1024];
        for (unsigned at = 0; at < count; at += 1024) {
            unsigned here = count - at < 1024 ? count - at : 1024;
            Format::widen_all(wide, from + at, here, 1.0f);
            Format::narrow_all(to + at, wide, here, work.factor);
            for (unsigned i = 0; i < here && work.divides; ++i)
                to[at + i] -= (to[at + i] & 0x7fff) == Format::infinity && wide[i] - wide[i] == 0.0f;
        }
    }
#endif
};

/* float32 in the bucket, 16 bits in the members: a quotient, rounded to float32 and then to 16 bits. */
template <typename Format> struct narrowed_quotient {
    using from = float;
    using to = unsigned short;
    quotient<float> over;
    __device__ narrowed_quotient(double, double by) : over(by)
    {
    }
    __device__ unsigned short operator()(float value) const
    {
        return Format::narrow(over(value));
    }
#ifdef DDPRUN_STAND_IN
    static void all(unsigned short *to, const float *from, unsigned count, const narrowed_quotient &work)
    {
        float quotients[1024];
        for (unsigned at = 0; at < count; at += 1024) {
            unsigned here = count - at < 1024 ? count - at : 1024;
            for (unsigned i = 0; i < here; ++i)
                quotients[i] = from[at + i] / work.over.over;
            Format::narrow_all(to + at, quotients, here, 1.0f);
        }
    }
#endif
};

/* ---- what a chunk holds ---- */

/* No digest is made. */
struct undigested {
    static constexpr bool stores = true;
    template <typename Vector> __device__ void add(const Vector &, unsigned)
    {
    }
    __device__ void add_chunk(const void *, unsigned)
    {
    }
};

/*
 * The digest of a chunk as it is in the bucket, from the registers that are stored there: no write by others can come
 * in between. Two sums over words, as in comm/hash.h: a changed word changes one of them for certain. It depends on how
 * threads take the chunk, which follows from its addresses; digests are compared of the same addresses only.
 */
struct digested {
    bool stores;
    uint64_t even = 0, odd = 0;

    __device__ explicit digested(bool stores) : stores(stores)
    {
    }

    /* `element`: the number of the first in its chunk. Elements are taken by 16 bytes. */
    template <typename Vector> __device__ __forceinline__ void add(const Vector &made, unsigned element)
    {
        constexpr unsigned pairs = (sizeof(made) + 15) / 16, each = 16 / sizeof(made.at[0]);
        uint64_t words[2 * pairs] = {};
        memcpy(words, &made, sizeof(made));
#pragma unroll
        for (unsigned i = 0; i < pairs; ++i) {
            const uint64_t key = (element + i * each + 1) * HASH_STEP;
            even += hash_product(words[2 * i], key) + words[2 * i + 1];
            odd += hash_product(words[2 * i + 1], ~key) + words[2 * i];
        }
    }

#ifdef DDPRUN_STAND_IN
    void add_chunk(const void *made, unsigned bytes)
    {
        even += hash_part(0, 0, made, bytes);
    }
#endif

    /* By all threads of a block: the chunk's digest, in its first thread. Begins the next. */
    __device__ uint64_t end_chunk()
    {
        __shared__ unsigned long long sums[2];
        __syncthreads(); /* the sums before these are read */
        if (threadIdx.x == 0)
            sums[0] = sums[1] = 0;
        __syncthreads();
        bool adds = true;
#ifndef DDPRUN_STAND_IN
        for (unsigned by = warpSize / 2; by > 0; by /= 2) {
            even += __shfl_down_sync(0xffffffffu, even, by);
            odd += __shfl_down_sync(0xffffffffu, odd, by);
        }
        adds = threadIdx.x % warpSize == 0;
#endif
        if (adds) {
            atomicAdd(&sums[0], (unsigned long long)even);
            atomicAdd(&sums[1], (unsigned long long)odd);
        }
        even = odd = 0;
        __syncthreads();
        return hash_of_column(sums[0], sums[1], 0);
    }
};

/* ---- moving ---- */

/* N elements that are loaded or stored together. */
template <typename Element, unsigned N> struct alignas(sizeof(Element) * N < 16 ? sizeof(Element) * N : 16) together {
    /* Of an element; 0: of a word, which may be any. */
    static constexpr unsigned known = std::is_same<Element, unsigned>::value ? 0 : sizeof(Element);
    Element at[N];
};

template <typename Work, unsigned N>
__device__ static __forceinline__ together<typename Work::to, N>
each_of(const together<typename Work::from, N> &in, const Work &work)
{
    together<typename Work::to, N> out;
#pragma unroll
    for (unsigned i = 0; i < N; ++i)
        out.at[i] = work(in.at[i]);
    return out;
}

/* Four loads are under way before the first store: what a thread waits for is memory. `to` may be `from`. Whether some
 * of what was loaded is infinite or NaN; no exponents: it is not looked at. `squares`: NULL,
 * or these are added, with one load under way: registers of the usual way are not to be fewer for it. `first`: the
 * number of the first element in its chunk. */
template <unsigned N, typename Work, typename Digest>
__device__ static __forceinline__ bool
move_together(typename Work::to *to, const typename Work::from *from, unsigned count, unsigned first, const Work &work,
              uint64_t exponents, squares *squares, Digest &digest)
{
    const auto *const in = (const together<typename Work::from, N> *)from;
    auto *const out = (together<typename Work::to, N> *)to;
    const unsigned step = blockDim.x;
    bool found = false;
    unsigned i = threadIdx.x;
    const auto put = [&](unsigned at, const auto &made) {
        digest.add(made, first + at * N);
        if (digest.stores)
            out[at] = made;
    };
    for (; squares == NULL && i + 3 * step < count; i += 4 * step) {
        const auto a = in[i], b = in[i + step], c = in[i + 2 * step], d = in[i + 3 * step];
        const auto take = [&](unsigned at, const auto &loaded) {
            if (exponents != 0) /* first: no register holds an element once another is made of it */
                found |= infinite_in(loaded, exponents) != 0;
            put(at, each_of(loaded, work));
        };
        take(i, a), take(i + step, b), take(i + 2 * step, c), take(i + 3 * step, d);
    }
    for (; i < count; i += step) {
        const auto a = in[i];
        const auto made = each_of(a, work);
        put(i, made);
        if (squares != NULL && squares->look.after != 0)
            squares->add(made, made.known);
        else if (squares != NULL)
            squares->add(a, a.known);
        if (exponents != 0)
            found |= infinite_in(a, exponents) != 0;
    }
    return found;
}

#ifdef DDPRUN_STAND_IN
/* One thread moves the chunk, by the processor's vector instructions. */
template <typename Work, typename Digest>
static void
move_chunk_alone(typename Work::to *to, const typename Work::from *from, unsigned count, const Work &work,
                 const nonfinite_look &look, squares &squares, Digest &digest)
{
    typename Work::to unstored[CHUNK_BYTES / sizeof(*from)];
    if (!digest.stores)
        to = unstored;
    if (squares.look.after == 0)
        squares.add_chunk(from, count * (unsigned)sizeof(*from));
    Work::all(to, from, count, work);
    __syncthreads(); /* nothing is read before it, as elements of another type */
    if (squares.look.after != 0)
        squares.add_chunk(to, count * (unsigned)sizeof(*to));
    digest.add_chunk(to, count * (unsigned)sizeof(*to));
    look_at_chunk<1>((const unsigned char *)from, count * (unsigned)sizeof(*from), look, squares, false);
}
#endif

/* A chunk, by all threads of a block. Where both sides can be brought to 16 bytes it is looked at on the way. */
template <typename Work, typename Digest>
__device__ static void
move_chunk(typename Work::to *to, const typename Work::from *from, unsigned count, const Work &work,
           const nonfinite_look &look, squares &squares, Digest &digest)
{
    constexpr unsigned each = 16 / sizeof(*from), align = alignof(together<typename Work::to, each>);
    const unsigned char *const bytes = (const unsigned char *)from;
#ifdef DDPRUN_STAND_IN
    if (blockDim.x == 1)
        return move_chunk_alone(to, from, count, work, look, squares, digest);
#endif
    unsigned head = (unsigned)(-(uintptr_t)from & 15) / (unsigned)sizeof(*from);
    head = head < count && ((uintptr_t)(to + head) & (align - 1)) == 0 ? head : count;
    const unsigned groups = (count - head) / each, rest = head + groups * each;
    const uint64_t exponents = look.claim != 0 ? look.exponents : 0;
    const auto add_ends = [&](const auto *elements) {
        squares.add_chunk(elements, head * (unsigned)sizeof(*elements));
        squares.add_chunk(elements + rest, (count - rest) * (unsigned)sizeof(*elements));
    };
    if (squares.look.after == 0)
        add_ends(from);
    move_together<1>(to, from, head, 0, work, 0, NULL, digest);
    const bool found =
        squares.takes ? move_together<each>(to + head, from + head, groups, head, work, exponents, &squares, digest)
                      : move_together<each>(to + head, from + head, groups, head, work, exponents, NULL, digest);
    move_together<1>(to + rest, from + rest, count - rest, rest, work, 0, NULL, digest);
    if (squares.look.after != 0) {
        __syncthreads();
        add_ends(to);
    }
    look_at_chunk<1>(bytes, head * (unsigned)sizeof(*from), look, squares, false);
    look_at_chunk<1>(bytes + rest * sizeof(*from), (count - rest) * (unsigned)sizeof(*from), look, squares, false);
    if (found)
        look_again(bytes + head * sizeof(*from), 16 * groups, look);
}

/* ---- kernels: a bucket's members into one piece of memory, and back ---- */

template <bool packs, typename Work, typename Digest>
__device__ static void
move_between(const struct chunk &chunk, unsigned char *bucket, const Work &work, squares &squares, Digest &digest)
{
    using From = typename Work::from;
    using To = typename Work::to;
    if (packs)
        move_chunk((To *)bucket + chunk.at / sizeof(From), (const From *)chunk.address,
                   (unsigned)(chunk.bytes / sizeof(From)), work, squares.look, squares, digest);
    else
        move_chunk((To *)chunk.address, (const From *)bucket + chunk.at / sizeof(To),
                   (unsigned)(chunk.bytes / sizeof(To)), work, nonfinite_look{}, squares, digest);
}

/* Members whose elements are any words: those of two bytes may lie anywhere but between them. */
struct words {
    __device__ words(double, double)
    {
    }
};

template <bool packs, typename Digest>
__device__ static void
move_between(const struct chunk &chunk, unsigned char *bucket, const words &, squares &squares, Digest &digest)
{
    if (((chunk.address | chunk.at | chunk.bytes) & 3) == 0)
        move_between<packs>(chunk, bucket, copied<unsigned>(), squares, digest);
    else
        move_between<packs>(chunk, bucket, copied<unsigned short>(), squares, digest);
}

/* Where it lies. The look comes first, for a product may be infinite where its element is not; what it has read is in
 * the cache then, and memory is read once. */
template <typename Work>
__device__ static void
scale_chunk(typename Work::to *values, unsigned count, const Work &work, squares &squares)
{
    look_at_chunk<4>((const unsigned char *)values, count * (unsigned)sizeof(*values), squares.look, squares, false);
    if (squares.look.claim != 0)
        __syncthreads();
    undigested none;
    move_chunk(values, values, count, work, nonfinite_look{}, squares, none);
}

/* The table for the kernels below. */
extern "C" __global__ void
ddprun_chunks(struct chunk *chunks, const __grid_constant__ struct chunk_runs all)
{
    unsigned run = 0;
    for (uint64_t i = all.runs[0].first + blockIdx.x * blockDim.x + threadIdx.x; i < all.end;
         i += gridDim.x * blockDim.x) {
        while (run + 1 < all.count && i >= all.runs[run + 1].first)
            ++run;
        const uint64_t done = (i - all.runs[run].first) * CHUNK_BYTES, left = all.runs[run].bytes - done;
        chunks[i] = {all.runs[run].address + done, all.runs[run].at + done, left < CHUNK_BYTES ? left : CHUNK_BYTES};
    }
}

/* All chunks of the bucket. */
template <bool packs, typename Work>
__device__ static void
move_all(const struct chunk *chunks, unsigned count, unsigned char *bucket, const Work &work,
         const nonfinite_look &look)
{
    squares squares(look);
    undigested none;
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x)
        move_between<packs>(chunks[i], bucket, work, squares, none);
}

/* Packs them with their digests; or, where digests are compared, finds out whether packing now would give the same. */
template <typename Work>
__device__ static void
digest_all(const struct chunk *chunks, unsigned count, unsigned char *bucket, const Work &work,
           const nonfinite_look &look, const chunk_digests &digests)
{
    squares squares(look);
    uint64_t *const kept = (uint64_t *)digests.digests;
    digested digest(digests.stale == 0);
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
        move_between<true>(chunks[i], bucket, work, squares, digest);
        const uint64_t found = digest.end_chunk();
        if (threadIdx.x != 0)
            continue;
        if (digest.stores) {
            kept[i] = found;
        } else if (kept[i] != found) {
            kept[i] = CHUNK_IS_STALE;
            *(volatile uint32_t *)digests.stale = 1;
        }
    }
}

/* By all threads of a block, with the same answer. */
__device__ static bool
may_write(const struct chunk_guard &guard)
{
    const volatile uint32_t *const words = (const volatile uint32_t *)guard.words;
    if (words == NULL)
        return true;
    bool forbidden = words[guard.count] != guard.expected;
    for (unsigned i = threadIdx.x; i < guard.count; i += blockDim.x)
        forbidden = forbidden || words[i] != 0;
    return __syncthreads_or(forbidden) == 0;
}

/* Elements are multiplied with the first number, and divided by the second. */
#define MOVING_KERNELS(suffix, Packing, Unpacking)                                                                    \
    extern "C" __global__ void ddprun_pack##suffix(const struct chunk *chunks, unsigned count, unsigned char *bucket, \
                                                   double times, double over, struct nonfinite_look look)             \
    {                                                                                                                 \
        move_all<true>(chunks, count, bucket, Packing(times, over), look);                                            \
    }                                                                                                                 \
    extern "C" __global__ void ddprun_digest##suffix(const struct chunk *chunks, unsigned count,                      \
                                                     unsigned char *bucket, double times, double over,                \
                                                     struct nonfinite_look look, struct chunk_digests digests)        \
    {                                                                                                                 \
        digest_all(chunks, count, bucket, Packing(times, over), look, digests);                                       \
    }                                                                                                                 \
    extern "C" __global__ void ddprun_unpack##suffix(const struct chunk *chunks, unsigned count,                      \
                                                     unsigned char *bucket, double times, double over,                \
                                                     struct nonfinite_look look, struct chunk_guard guard)            \
    {                                                                                                                 \
        if (may_write(guard))                                                                                         \
            move_all<false>(chunks, count, bucket, Unpacking(times, over), look);                                     \
    }

MOVING_KERNELS(, words, words)
MOVING_KERNELS(_float16, narrowed<float16>, widened<float16>)
MOVING_KERNELS(_bfloat16, narrowed<bfloat16>, widened<bfloat16>)
MOVING_KERNELS(_widened, widened<float16>, narrowed_quotient<float16>)

/* Means over ranks, and ranks with unequal shares of a batch: in place, or on the way. */
#define SCALING_KERNELS(name, Work)                                                                                  \
    extern "C" __global__ void ddprun_scale_##name(Work::to *values, unsigned long long count, double times,         \
                                                   double over, struct nonfinite_look look)                          \
    {                                                                                                                \
        squares squares(look);                                                                                       \
        const unsigned each = CHUNK_BYTES / sizeof(*values);                                                         \
        for (unsigned long long at = (unsigned long long)each * blockIdx.x; at < count; at += each * gridDim.x) {    \
            squares.begin_chunk(at / each);                                                                          \
            scale_chunk(values + at, (unsigned)(count - at < each ? count - at : each), Work(times, over), squares); \
        }                                                                                                            \
    }                                                                                                                \
    MOVING_KERNELS(_scaled_##name, Work, Work)

SCALING_KERNELS(float32, scaled<float>)
SCALING_KERNELS(float64, scaled<double>)
SCALING_KERNELS(float16, scaled_bits<float16>)
SCALING_KERNELS(bfloat16, scaled_bits<bfloat16>)

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

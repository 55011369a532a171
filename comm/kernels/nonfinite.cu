/*
 * nonfinite.cu - the look for infinite elements and NaN: of chunks that wire.cu packs, and by a kernel of its own of
 * memory that is sent where it is (comm/kernels/nonfinite.h).
 *
 * Built as wire.cu is, in front of it. It writes nothing but what it has found.
 */
#include "comm/kernels/chunk.h"
#include "comm/kernels/nonfinite.h"

#include "comm/kernels/hash.h"

#include <cuda_fp16.h>

#ifdef DDPRUN_STAND_IN
#include "comm/hash.h"
#endif

__device__ static nonfinite_launch
launch_of(const nonfinite_look &look)
{
    return look.launch != 0 ? *(const nonfinite_launch *)look.launch : nonfinite_launch{0, 0};
}

/* The first thread that comes keeps the others out, until the host has taken it. In a graph the kernel runs on and on,
 * and may find more each time: a read is cheaper than an atomic operation. */
__device__ static void
report_nonfinite(const unsigned char *element, uint64_t bits, const nonfinite_look &look)
{
    if (*(volatile unsigned *)look.claim != 0u || atomicCAS((unsigned *)look.claim, 0u, 1u) != 0u)
        return;
    volatile nonfinite_found *found = (volatile nonfinite_found *)look.found;
    found->address = (uint64_t)element;
    found->bits = bits;
    found->step = look.step + launch_of(look).step;
    __threadfence_system();
    found->ready = 1;
}

/* A word of up to 8 bytes that holds such an element: the first one. */
__device__ static void
find_nonfinite(const unsigned char *address, unsigned bytes, uint64_t word, const nonfinite_look &look)
{
    const unsigned each = (unsigned)look.element_bytes;
    for (unsigned at = 0; at < bytes; at += each) {
        const uint64_t bits = word >> 8 * at & (each < 8 ? (UINT64_C(1) << 8 * each) - 1 : UINT64_MAX);
        if (hash_infinite(bits, look.exponents) == 0)
            continue;
        report_nonfinite(address + at, bits, look);
        return;
    }
}

/* What lies in front of groups of 16 bytes, or after them: no element has bytes on both sides of a multiple of 8. */
__device__ static void
look_at_rest(const unsigned char *address, unsigned bytes, const nonfinite_look &look)
{
    for (unsigned at = 0; at < bytes;) {
        const unsigned to_border = 8 - ((uintptr_t)(address + at) & 7);
        const unsigned here = bytes - at < to_border ? bytes - at : to_border;
        uint64_t word = 0;
        for (unsigned i = 0; i < here; ++i)
            word |= (uint64_t)address[at + i] << 8 * i;
        if (hash_infinite(word, look.exponents) != 0)
            return find_nonfinite(address + at, here, word, look);
        at += here;
    }
}

/* The groups of 16 bytes among which this thread has seen such an element. */
__device__ static void
look_again(const unsigned char *address, unsigned groups, const nonfinite_look &look)
{
    const uint64_t *words = (const uint64_t *)address;
    for (unsigned i = threadIdx.x; i < groups; i += blockDim.x) {
        const unsigned at = hash_infinite(words[2 * i], look.exponents) != 0 ? 2 * i : 2 * i + 1;
        if (hash_infinite(words[at], look.exponents) != 0)
            return find_nonfinite((const unsigned char *)&words[at], 8, words[at], look);
    }
}

/* What a look asks for (nonfinite.h), in elements that were loaded together. */
template <typename Vector>
__device__ static uint64_t
infinite_in(const Vector &vector, uint64_t exponents)
{
    uint64_t words[(sizeof(Vector) + sizeof(uint64_t) - 1) / sizeof(uint64_t)] = {}, any = 0;
    memcpy(words, &vector, sizeof(vector));
#pragma unroll
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); ++i)
        any |= hash_infinite(words[i], exponents);
    return any;
}

/* One chunk by all threads of a block, so many loads of each under way. Elements lie at multiples of their size. */
template <unsigned at_once>
__device__ static void
look_at_chunk(const unsigned char *address, unsigned bytes, const nonfinite_look &look)
{
    if (look.claim == 0)
        return;
#ifdef DDPRUN_STAND_IN
    if (blockDim.x == 1 && !hash_has_infinite(address, bytes, look.exponents)) /* by vector instructions */
        return;
#endif
    unsigned head = (unsigned)(-(uintptr_t)address & 15), i = threadIdx.x;
    head = head < bytes ? head : bytes;
    const ulonglong2 *const in = (const ulonglong2 *)(address + head);
    const unsigned groups = (bytes - head) / 16, step = blockDim.x;
    uint64_t any = 0;
    for (; i + (at_once - 1) * step < groups; i += at_once * step) {
        ulonglong2 seen[at_once];
#pragma unroll
        for (unsigned k = 0; k < at_once; ++k)
            seen[k] = in[i + k * step];
#pragma unroll
        for (unsigned k = 0; k < at_once; ++k)
            any |= infinite_in(seen[k], look.exponents);
    }
#pragma unroll 1
    for (; i < groups; i += step)
        any |= infinite_in(in[i], look.exponents);
    if (any != 0)
        look_again(address + head, groups, look);
    if (threadIdx.x != 0)
        return;
    look_at_rest(address, head, look);
    look_at_rest(address + head + 16 * groups, bytes - head - 16 * groups, look);
}

/* ---- squares ---- */

/* Those of the elements that a thread has seen, added where the look says when the kernel ends. In float64: a float32
 * has no square that it does not hold. */
struct squares {
    const nonfinite_look &look;
    double sum = 0;

    __device__ explicit squares(const nonfinite_look &look) : look(look)
    {
    }

    template <typename Element, typename Vector, typename Widen>
    __device__ __forceinline__ void add_each(const Vector &vector, Widen widen)
    {
        constexpr int count = sizeof(Vector) / sizeof(Element);
        Element elements[count + 1]; /* of an element of another type there is none */
        memcpy(elements, &vector, count * sizeof(Element));
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const double value = widen(elements[i]);
            sum += value * value;
        }
    }

    /* Elements that were loaded together, or are to be stored so. `known`: their bytes, where the compiler knows them:
     * another type's would need local memory; else 0. A bfloat16 is the upper half of a float32. */
    template <typename Vector> __device__ __forceinline__ void add(const Vector &vector, unsigned known)
    {
        const unsigned each = known != 0 ? known : (unsigned)look.element_bytes;
        if (each == 8)
            add_each<double>(vector, [](double value) { return value; });
        else if (each == 4)
            add_each<float>(vector, [](float value) { return value; });
        else if ((look.exponents & 0x80) != 0)
            add_each<unsigned short>(vector, [](unsigned short bits) { return __uint_as_float((unsigned)bits << 16); });
        else
            add_each<unsigned short>(vector, [](unsigned short bits) { return __half2float(__ushort_as_half(bits)); });
    }

    /* Memory, by all threads of a block. */
    __device__ void add_chunk(const void *address, unsigned bytes)
    {
        const unsigned each = (unsigned)look.element_bytes;
        const unsigned groups = look.squares != 0 && ((uintptr_t)address & 15) == 0 ? bytes / 16 : 0;
        for (unsigned i = threadIdx.x; i < groups; i += blockDim.x)
            add(((const ulonglong2 *)address)[i], 0);
        for (unsigned at = 16 * groups + threadIdx.x * each; look.squares != 0 && at < bytes; at += blockDim.x * each) {
            const unsigned char *const element = (const unsigned char *)address + at;
            const uint64_t word = each == 8   ? *(const uint64_t *)element
                                  : each == 4 ? *(const uint32_t *)element
                                              : *(const uint16_t *)element;
            add(word, 0); /* zeros follow it */
        }
    }

    __device__ ~squares()
    {
        bool adds = look.squares != 0;
#ifndef DDPRUN_STAND_IN
        for (unsigned by = warpSize / 2; adds && by > 0; by /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, by);
        adds = adds && threadIdx.x % warpSize == 0;
#endif
        if (adds)
            atomicAdd((double *)look.squares, sum);
    }
};

/* Memory that stays where it is: of each block's chunks one in NONFINITE_TURNS, or one if it has fewer; squares are of
 * all. */
extern "C" __global__ void
ddprun_nonfinite(const unsigned char *address, unsigned long long bytes, unsigned turn, struct nonfinite_look look)
{
    const unsigned long long chunks = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    const unsigned long long rounds = (chunks + gridDim.x - 1) / gridDim.x;
    const unsigned turns = rounds < NONFINITE_TURNS ? (unsigned)rounds : NONFINITE_TURNS;
    squares squares(look);
    for (unsigned long long at = blockIdx.x * CHUNK_BYTES; look.squares != 0 && at < bytes;
         at += gridDim.x * CHUNK_BYTES)
        squares.add_chunk(address + at, (unsigned)(bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES));
    for (unsigned long long round = (turn + launch_of(look).turn) % turns; round < rounds; round += turns) {
        const unsigned long long at = (round * gridDim.x + blockIdx.x) * CHUNK_BYTES;
        if (at < bytes)
            look_at_chunk<4>(address + at, (unsigned)(bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES), look);
    }
}

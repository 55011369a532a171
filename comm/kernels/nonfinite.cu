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

/* The bits of an element of 2, 4 or 8 bytes, which lies at a multiple of them. */
__device__ static uint64_t
element_at(const unsigned char *address, unsigned bytes)
{
    return bytes == 8   ? *(const uint64_t *)address
           : bytes == 4 ? *(const uint32_t *)address
                        : *(const uint16_t *)address;
}

/* ---- squares ---- */

/* Those of the elements that a thread has seen, added where the look says when the kernel ends. In float64: a float32
 * has no square that it does not hold. */
struct squares {
    const nonfinite_look &look;
    bool takes; /* what comes */
    double sum = 0;

    __device__ explicit squares(const nonfinite_look &look) : look(look), takes(look.squares != 0)
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

    /* A chunk of memory that stays where it is, by its number. */
    __device__ void begin_chunk(unsigned long long chunk)
    {
        takes = look.squares != 0 && (look.turns == 1 || chunk / look.chunks % look.turns == look.turn);
    }

    /* Memory, by all threads of a block. */
    __device__ void add_chunk(const void *address, unsigned bytes)
    {
        const unsigned each = (unsigned)look.element_bytes;
        const unsigned groups = takes && ((uintptr_t)address & 15) == 0 ? bytes / 16 : 0;
        for (unsigned i = threadIdx.x; i < groups; i += blockDim.x)
            add(((const ulonglong2 *)address)[i], 0);
        for (unsigned at = 16 * groups + threadIdx.x * each; takes && at < bytes; at += blockDim.x * each) {
            const uint64_t bits = element_at((const unsigned char *)address + at, each);
            add(bits, 0); /* zeros follow them */
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
            atomicAdd((double *)look.squares, sum * look.turns);
    }
};

/* ---- the look ---- */

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

/* Element by element; each thread has 16 bytes at a time, as where they were seen together. */
__device__ static void
look_again(const unsigned char *address, unsigned bytes, const nonfinite_look &look)
{
    const unsigned each = (unsigned)look.element_bytes;
#pragma unroll 1
    for (unsigned begin = 16 * threadIdx.x; begin < bytes; begin += 16 * blockDim.x) {
#pragma unroll 1
        for (unsigned at = begin; at < bytes && at < begin + 16; at += each) {
            const uint64_t bits = element_at(address + at, each);
            if (hash_infinite(bits, look.exponents) != 0)
                report_nonfinite(address + at, bits, look);
        }
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

/* One chunk by all threads of a block, so many loads of each under way, or one where it is added to the squares.
 * Elements lie at multiples of their size. */
template <unsigned at_once>
__device__ static void
look_at_chunk(const unsigned char *address, unsigned bytes, const nonfinite_look &look, squares &squares, bool adds)
{
    if (look.claim == 0 && !adds)
        return;
#ifdef DDPRUN_STAND_IN
    if (blockDim.x == 1 && adds)
        squares.add_chunk(address, bytes);
    if (blockDim.x == 1 && (look.claim == 0 || !hash_has_infinite(address, bytes, look.exponents)))
        return; /* by vector instructions */
#endif
    unsigned head = (unsigned)(-(uintptr_t)address & 15), i = threadIdx.x;
    head = head < bytes ? head : bytes;
    const ulonglong2 *const in = (const ulonglong2 *)(address + head);
    const unsigned groups = (bytes - head) / 16, step = blockDim.x;
    uint64_t any = 0;
    for (; !adds && i + (at_once - 1) * step < groups; i += at_once * step) {
        ulonglong2 seen[at_once];
#pragma unroll
        for (unsigned k = 0; k < at_once; ++k)
            seen[k] = in[i + k * step];
#pragma unroll
        for (unsigned k = 0; k < at_once; ++k)
            any |= infinite_in(seen[k], look.exponents);
    }
#pragma unroll 1
    for (; i < groups; i += step) {
        const ulonglong2 seen = in[i];
        any |= infinite_in(seen, look.exponents);
        if (adds)
            squares.add(seen, 0);
    }
    if (adds) {
        squares.add_chunk(address, head);
        squares.add_chunk(address + head + 16 * groups, bytes - head - 16 * groups);
    }
    if (look.claim == 0)
        return;
    if (any != 0)
        look_again(address + head, 16 * groups, look);
    look_again(address, head, look);
    look_again(address + head + 16 * groups, bytes - head - 16 * groups, look);
}

/* Memory that stays where it is: of the rounds that the look takes each block has one chunk. */
extern "C" __global__ void
ddprun_nonfinite(const unsigned char *address, unsigned long long bytes, struct nonfinite_look look)
{
    const unsigned long long each = (unsigned long long)gridDim.x * CHUNK_BYTES;
    squares squares(look);
    for (unsigned long long at = (look.turn + launch_of(look).turn) % look.turns * each + blockIdx.x * CHUNK_BYTES;
         at < bytes; at += look.turns * each) {
        const unsigned here = (unsigned)(bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES);
        look_at_chunk<4>(address + at, here, look, squares, squares.takes);
    }
}

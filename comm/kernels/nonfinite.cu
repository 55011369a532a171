/*
 * nonfinite.cu - the look for infinite elements and NaN: of chunks that wire.cu packs, and by a kernel of its own of
 * memory that is sent where it is (comm/kernels/nonfinite.h).
 *
 * Built as wire.cu is, in front of it. It writes nothing but what it has found.
 */
#include "comm/kernels/chunk.h"
#include "comm/kernels/nonfinite.h"

#include "comm/kernels/hash.h"

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

/* What lies in front of groups of 16 bytes, or behind them: no element has bytes on both sides of a multiple of 8. */
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

__device__ static uint64_t
infinite_in_group(const ulonglong2 &group, uint64_t exponents)
{
    return hash_infinite(group.x, exponents) | hash_infinite(group.y, exponents);
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
            any |= infinite_in_group(seen[k], look.exponents);
    }
#pragma unroll 1
    for (; i < groups; i += step)
        any |= infinite_in_group(in[i], look.exponents);
    if (any != 0)
        look_again(address + head, groups, look);
    if (threadIdx.x != 0)
        return;
    look_at_rest(address, head, look);
    look_at_rest(address + head + 16 * groups, bytes - head - 16 * groups, look);
}

/* Memory that stays where it is: of each block's chunks one in NONFINITE_TURNS, or one if it has fewer. */
extern "C" __global__ void
ddprun_nonfinite(const unsigned char *address, unsigned long long bytes, unsigned turn, struct nonfinite_look look)
{
    const unsigned long long chunks = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    const unsigned long long rounds = (chunks + gridDim.x - 1) / gridDim.x;
    const unsigned turns = rounds < NONFINITE_TURNS ? (unsigned)rounds : NONFINITE_TURNS;
    for (unsigned long long round = (turn + launch_of(look).turn) % turns; round < rounds; round += turns) {
        const unsigned long long at = (round * gridDim.x + blockIdx.x) * CHUNK_BYTES;
        if (at < bytes)
            look_at_chunk<4>(address + at, (unsigned)(bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES), look);
    }
}

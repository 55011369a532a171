/*
 * hash.cu - the kernels that hash memory (comm/hash.h) and compare hashes across ranks.
 *
 * Built as wire.cu is, launched by interpose/engine/core/hashing.c and gather.c with any number of threads and blocks.
 * They read nothing outside of the ranges, and write results alone.
 */
#include "comm/kernels/hash.h"

#include <cuda_runtime.h>
#ifdef DDPRUN_STAND_IN
#include "comm/hash.h"
#endif

static __constant__ uint64_t keys[2 * HASH_ROWS] = {HASH_KEYS};

/* What a thread has found in its columns of a range. */
struct found {
    uint64_t sum, infinite, any;
};

struct piece {
    uint64_t even, odd;
};

/* By the words that the address is a multiple of. */
template <typename Word>
__device__ static piece
load(const unsigned char *address)
{
    const unsigned each = sizeof(Word), half = 8 / each;
    const Word *words = (const Word *)address;
    piece loaded = {0, 0};
#pragma unroll
    for (unsigned i = 0; i < half; ++i) {
        loaded.even |= (uint64_t)words[i] << 8 * each * i;
        loaded.odd |= (uint64_t)words[half + i] << 8 * each * i;
    }
    return loaded;
}

template <>
__device__ piece
load<ulonglong2>(const unsigned char *address)
{
    const ulonglong2 both = *(const ulonglong2 *)address;
    return {both.x, both.y};
}

__device__ static piece
load_some(const unsigned char *address, unsigned bytes)
{
    piece loaded = {0, 0};
    for (unsigned i = 0; i < bytes; ++i)
        (i < 8 ? loaded.even : loaded.odd) |= (uint64_t)address[i] << 8 * (i % 8);
    return loaded;
}

struct column {
    uint64_t even, odd;
    __device__ void add(const piece &piece, unsigned row)
    {
        even += hash_product(piece.even, keys[2 * row]) + piece.odd;
        odd += hash_product(piece.odd, keys[2 * row + 1]) + piece.even;
    }
};

__device__ static void
look(const piece &piece, uint64_t exponents, found *found)
{
    found->infinite |= hash_infinite(piece.even, exponents) | hash_infinite(piece.odd, exponents);
    found->any |= (piece.even | piece.odd) & ~hash_signs(exponents);
}

/* As many loads at once as hide memory's latency, where nearly all memory is: at multiples of 16. */
template <typename Word, bool looks>
__device__ static void
add_rows(column *column, const unsigned char *address, unsigned rows, uint64_t exponents, found *found)
{
    constexpr int at_once = sizeof(Word) == HASH_PIECE ? 8 : 1;
#pragma unroll at_once
    for (unsigned row = 0; row < rows; ++row) {
        const piece piece = load<Word>(address + row * HASH_ROW);
        column->add(piece, row);
        if (looks)
            look(piece, exponents, found);
    }
}

template <typename Word>
__device__ static void
add_all_rows(column *column, const unsigned char *address, unsigned rows, uint64_t exponents, found *found)
{
    if (exponents != 0)
        add_rows<Word, true>(column, address, rows, exponents, found);
    else
        add_rows<Word, false>(column, address, rows, exponents, found);
}

/* One column of the range's block `block`: nothing if the range ends before it. */
__device__ static void
hash_column(const hash_range &range, uint64_t block, unsigned number, found *found)
{
    const uint64_t at = block * HASH_BLOCK + number * HASH_PIECE;
    if (at >= range.bytes)
        return;
    const unsigned char *address = (const unsigned char *)range.address + at;
    const uint64_t left = range.bytes - at, whole = (left + HASH_ROW - HASH_PIECE) / HASH_ROW;
    const unsigned rows = whole < HASH_ROWS ? (unsigned)whole : HASH_ROWS;
    column column = {0, 0};
    switch (range.address & 15) {
    case 0:
        add_all_rows<ulonglong2>(&column, address, rows, range.exponents, found);
        break;
    case 4:
    case 8:
    case 12:
        add_all_rows<unsigned>(&column, address, rows, range.exponents, found);
        break;
    default:
        if ((range.address & 1) == 0)
            add_all_rows<unsigned short>(&column, address, rows, range.exponents, found);
        else
            add_all_rows<unsigned char>(&column, address, rows, range.exponents, found);
    }
    if (rows < HASH_ROWS && (uint64_t)rows * HASH_ROW < left) {
        const piece last = load_some(address + rows * HASH_ROW, (unsigned)(left - (uint64_t)rows * HASH_ROW));
        column.add(last, rows);
        if (range.exponents != 0)
            look(last, range.exponents, found);
    }
    found->sum += hash_of_column(column.even, column.odd, (range.number + block) * HASH_COLUMNS + number);
}

/* Several threads may store what a range holds: they all store the same. */
__device__ static void
add_found(const hash_range &range, found *found)
{
    hash_result *result = (hash_result *)range.result;
    if ((found->sum | found->infinite | found->any) == 0) /* no column of it */
        return;
    atomicAdd((unsigned long long *)&result->sum, (unsigned long long)found->sum);
    if (found->infinite != 0)
        result->infinite = 1;
    if (found->any != 0)
        result->nonzero = 1;
    *found = {0, 0, 0};
}

#ifdef DDPRUN_STAND_IN
/* One thread takes a whole share, by the processor's vector instructions: the same bits. */
__device__ static void
hash_share(const hash_launch &launch, uint64_t first, uint64_t end)
{
    for (unsigned i = 0; i < launch.count; ++i) {
        const hash_range &range = launch.ranges[i];
        const uint64_t behind = i + 1 < launch.count ? launch.ranges[i + 1].begin : launch.blocks;
        const uint64_t from = first > range.begin ? first : range.begin, to = end < behind ? end : behind;
        if (from >= to)
            continue;
        const uint64_t at = (from - range.begin) * HASH_BLOCK, left = range.bytes - at;
        const uint64_t bytes = left < (to - from) * HASH_BLOCK ? left : (to - from) * HASH_BLOCK;
        const void *data = (const void *)(range.address + at);
        hash_result seen = {0, 0, 0};
        if (range.exponents != 0)
            hash_look(data, bytes, range.exponents, &seen);
        found found = {hash_part(0, (uint64_t)range.number * HASH_BLOCK + at, data, bytes), seen.infinite,
                       seen.nonzero};
        add_found(range, &found);
    }
}
#endif

/* Each block of threads takes as many blocks of memory as the others, one after another, so that few threads meet in a
 * result. */
extern "C" __global__ void
ddprun_hash(const __grid_constant__ struct hash_launch launch)
{
    const uint64_t share = (launch.blocks + gridDim.x - 1) / gridDim.x, first = share * blockIdx.x;
    const uint64_t end = first + share < launch.blocks ? first + share : launch.blocks;
#ifdef DDPRUN_STAND_IN
    if (blockDim.x == 1)
        return hash_share(launch, first, end);
#endif
    unsigned i = 0;
    found found = {0, 0, 0};
    for (uint64_t at = first * HASH_COLUMNS + threadIdx.x; at < end * HASH_COLUMNS; at += blockDim.x) {
        const uint64_t block = at / HASH_COLUMNS;
        const unsigned before = i;
        while (i + 1 < launch.count && block >= launch.ranges[i + 1].begin)
            ++i;
        if (i != before)
            add_found(launch.ranges[before], &found);
        hash_column(launch.ranges[i], block - launch.ranges[i].begin, at % HASH_COLUMNS, &found);
    }
    add_found(launch.ranges[i], &found);
}

/* differs[tensor]: hash_difference(). */
extern "C" __global__ void
ddprun_compare(const uint64_t *words, unsigned count, unsigned ranks, uint32_t *differs)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        differs[i] = hash_difference(words, count, ranks, i);
}

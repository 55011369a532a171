/*
 * hash.h - the hash of tensors (comm/hash.h): its constants, its parts, and what a launch of its kernel is given.
 *
 * Between comm/hash.c and hash.cu, which compute the same, and the engine, which launches the kernel. C, and CUDA C++.
 */
#ifndef DDPRUN_COMM_KERNELS_HASH_H
#define DDPRUN_COMM_KERNELS_HASH_H

#include <stdint.h>

#ifdef __CUDACC__
#define HASH_FUNCTION __host__ __device__ static inline
#else
#define HASH_FUNCTION static inline
#endif

/* Bytes. A block is 32 rows of 8 pieces; the pieces below each other are a column. */
enum { HASH_PIECE = 16, HASH_COLUMNS = 8, HASH_ROW = HASH_PIECE * HASH_COLUMNS, HASH_ROWS = 32, HASH_BLOCK = 4096 };

/* The golden ratio; and the two keys of each row: key i is hash_mix((i + 1) HASH_STEP). */
#define HASH_STEP UINT64_C(0x9e3779b97f4a7c15)
#define HASH_KEYS                                                                                 \
    UINT64_C(0xe220a8397b1dcdaf), UINT64_C(0x6e789e6aa1b965f4), UINT64_C(0x06c45d188009454f),     \
        UINT64_C(0xf88bb8a8724c81ec), UINT64_C(0x1b39896a51a8749b), UINT64_C(0x53cb9f0c747ea2ea), \
        UINT64_C(0x2c829abe1f4532e1), UINT64_C(0xc584133ac916ab3c), UINT64_C(0x3ee5789041c98ac3), \
        UINT64_C(0xf3b8488c368cb0a6), UINT64_C(0x657eecdd3cb13d09), UINT64_C(0xc2d326e0055bdef6), \
        UINT64_C(0x8621a03fe0bbdb7b), UINT64_C(0x8e1f7555983aa92f), UINT64_C(0xb54e0f1600cc4d19), \
        UINT64_C(0x84bb3f97971d80ab), UINT64_C(0x7d29825c75521255), UINT64_C(0xc3cf17102b7f7f86), \
        UINT64_C(0x3466e9a083914f64), UINT64_C(0xd81a8d2b5a4485ac), UINT64_C(0xdb01602b100b9ed7), \
        UINT64_C(0xa9038a921825f10d), UINT64_C(0xedf5f1d90dca2f6a), UINT64_C(0x54496ad67bd2634c), \
        UINT64_C(0xdd7c01d4f5407269), UINT64_C(0x935e82f1db4c4f7b), UINT64_C(0x69b82ebc92233300), \
        UINT64_C(0x40d29eb57de1d510), UINT64_C(0xa2f09dabb45c6316), UINT64_C(0xee521d7a0f4d3872), \
        UINT64_C(0xf16952ee72f3454f), UINT64_C(0x377d35dea8e40225), UINT64_C(0x0c7de8064963bab0), \
        UINT64_C(0x05582d37111ac529), UINT64_C(0xd254741f599dc6f7), UINT64_C(0x69630f7593d108c3), \
        UINT64_C(0x417ef96181daa383), UINT64_C(0x3c3c41a3b43343a1), UINT64_C(0x6e19905dcbe531df), \
        UINT64_C(0x4fa9fa7324851729), UINT64_C(0x84eb4454a792922a), UINT64_C(0x134f7096918175ce), \
        UINT64_C(0x07dc930b302278a8), UINT64_C(0x12c015a97019e937), UINT64_C(0xcc06c31652ebf438), \
        UINT64_C(0xecee65630a691e37), UINT64_C(0x3e84ecb1763e79ad), UINT64_C(0x690ed476743aae49), \
        UINT64_C(0x774615d7b1a1f2e1), UINT64_C(0x22b353f04f4f52da), UINT64_C(0xe3ddd86ba71a5eb1), \
        UINT64_C(0xdf268adeb6513356), UINT64_C(0x2098eb73d4367d77), UINT64_C(0x03d6845323ce3c71), \
        UINT64_C(0xc952c5620043c714), UINT64_C(0x9b196bca844f1705), UINT64_C(0x30260345dd9e0ec1), \
        UINT64_C(0xcf448a5882bb9698), UINT64_C(0xf4a578dccbc87656), UINT64_C(0xbfdeaed9a17b3c8f), \
        UINT64_C(0xed79402d1d5c5d7b), UINT64_C(0x55f070ab1cbbf170), UINT64_C(0x3e00a34929a88f1d), \
        UINT64_C(0xe255b237b8bb18fb)

/* A permutation of 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators, 2014). */
HASH_FUNCTION uint64_t
hash_mix(uint64_t word)
{
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

/* Of the two sums of a column, `number` among all columns of all blocks. */
HASH_FUNCTION uint64_t
hash_of_column(uint64_t even, uint64_t odd, uint64_t number)
{
    return hash_mix(hash_mix(even + (number + 1) * HASH_STEP) + odd);
}

/* Of the product of a word's halves, after its key. */
HASH_FUNCTION uint64_t
hash_product(uint64_t word, uint64_t key)
{
    word ^= key;
    return (word & UINT32_MAX) * (word >> 32);
}

/* What is found in memory. `sum`: of all columns; mixed with the length it becomes the hash. */
struct hash_result {
    uint64_t sum;
    uint32_t infinite; /* not 0: an element is infinite or NaN */
    uint32_t nonzero;  /* not 0: an element is not zero */
};

/* Elements of 2, 4 or 8 bytes side by side in a word: `exponents` has all bits of their exponents set. */
HASH_FUNCTION uint64_t
hash_signs(uint64_t exponents)
{
    return exponents << 1 & ~exponents;
}

/* Not 0: an exponent in the word has all its bits set. In the difference nothing is borrowed from a neighbour. */
HASH_FUNCTION uint64_t
hash_infinite(uint64_t word, uint64_t exponents)
{
    uint64_t signs = hash_signs(exponents);
    return (signs - (~word & exponents)) & signs;
}

/* ---- a launch ---- */

struct hash_range {
    uint64_t address, bytes; /* of the memory */
    uint64_t result;         /* address of a struct hash_result to add to */
    uint64_t exponents;      /* 0: elements are not looked at */
    uint32_t number;         /* of its first block in what is hashed: not 0 for a later part of it */
    uint32_t begin;          /* blocks of the ranges before */
};

/* As many as fit into the 4,096 bytes that kernels of any GPU take. */
enum { HASH_RANGES_AT_MOST = 96 };

struct hash_launch {
    uint32_t count, blocks;
    struct hash_range ranges[HASH_RANGES_AT_MOST];
};

/* Blocks of threads in a launch, at most; and the blocks of memory that one of them takes at a time. */
enum { HASH_GRID_AT_MOST = 256, HASH_THREADS = 256, HASH_BLOCKS_AT_ONCE = HASH_THREADS / HASH_COLUMNS };

/* How a tensor compares across ranks: equal, not at all, or a rank that differs: the first that differs from rank 0;
 * where more than half agree, with HASH_MAJORITY added, the first that differs from those. */
#define HASH_EQUAL      UINT32_C(0)
#define HASH_UNCOMPARED UINT32_MAX
#define HASH_MAJORITY   (UINT32_C(1) << 30)

/* words[rank * count + tensor], 0: no hash. By the vote of Boyer and Moore (MJRTY, 1991). */
HASH_FUNCTION uint32_t
hash_difference(const uint64_t *words, uint64_t count, uint32_t ranks, uint64_t tensor)
{
    const uint64_t zero = words[tensor];
    uint64_t most = 0;
    uint32_t votes = 0, known = 0, agree = 0, from_zero = 0, from_most = ranks;
    for (uint32_t rank = 0; rank < ranks && zero != 0; ++rank) {
        const uint64_t word = words[rank * count + tensor];
        if (word == 0)
            continue;
        ++known;
        if (votes == 0)
            most = word;
        votes += word == most ? 1 : -1;
        if (word != zero && from_zero == 0)
            from_zero = rank;
    }
    for (uint32_t rank = 0; rank < ranks && from_zero != 0; ++rank) {
        const uint64_t word = words[rank * count + tensor];
        agree += word == most;
        if (word != 0 && word != most && from_most == ranks)
            from_most = rank;
    }
    if (from_zero == 0)
        return known > 1 ? HASH_EQUAL : HASH_UNCOMPARED;
    return 2 * agree > known ? from_most | HASH_MAJORITY : from_zero;
}

#endif

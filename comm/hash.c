/*
 * hash.c - see hash.h. Sixteen bytes at a time where the processor has SSE2, which every x86-64 has.
 */
#include "comm/hash.h"

#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

static const uint64_t keys[2 * HASH_ROWS] = {HASH_KEYS};

/* The two sums of each column. */
struct sums {
    uint64_t even[HASH_COLUMNS], odd[HASH_COLUMNS];
};

static uint64_t
load(const unsigned char *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof(word));
    return word;
}

static void
add_piece(struct sums *sums, const unsigned char *piece, unsigned row, unsigned column)
{
    uint64_t even = load(piece), odd = load(piece + sizeof(even));
    sums->even[column] += hash_product(even, keys[2 * row]) + odd;
    sums->odd[column] += hash_product(odd, keys[2 * row + 1]) + even;
}

static void
add_rows(struct sums *sums, const unsigned char *data, unsigned rows)
{
#ifdef __SSE2__
    __m128i both[HASH_COLUMNS];
    for (unsigned column = 0; column < HASH_COLUMNS; ++column)
        both[column] = _mm_setzero_si128();
    for (unsigned row = 0; row < rows; ++row, data += HASH_ROW) {
        const __m128i key = _mm_loadu_si128((const __m128i *)(const void *)&keys[2 * row]);
        for (unsigned column = 0; column < HASH_COLUMNS; ++column) {
            __m128i piece = _mm_loadu_si128((const __m128i *)(const void *)(data + (size_t)column * HASH_PIECE));
            __m128i keyed = _mm_xor_si128(piece, key);
            __m128i product = _mm_mul_epu32(keyed, _mm_srli_epi64(keyed, 32));
            __m128i swapped = _mm_shuffle_epi32(piece, _MM_SHUFFLE(1, 0, 3, 2));
            both[column] = _mm_add_epi64(both[column], _mm_add_epi64(product, swapped));
        }
    }
    for (unsigned column = 0; column < HASH_COLUMNS; ++column) {
        uint64_t words[2];
        _mm_storeu_si128((__m128i *)(void *)words, both[column]);
        sums->even[column] = words[0];
        sums->odd[column] = words[1];
    }
#else
    for (unsigned row = 0; row < rows; ++row, data += HASH_ROW) {
        for (unsigned column = 0; column < HASH_COLUMNS; ++column)
            add_piece(sums, data + (size_t)column * HASH_PIECE, row, column);
    }
#endif
}

/* The last row: pieces that have no byte do not count, and missing bytes are zero. */
static void
add_last(struct sums *sums, const unsigned char *data, size_t bytes, unsigned row)
{
    unsigned char padded[HASH_ROW] = {0};
    memcpy(padded, data, bytes);
    for (unsigned column = 0; column * HASH_PIECE < bytes; ++column)
        add_piece(sums, padded + (size_t)column * HASH_PIECE, row, column);
}

/* 1 to HASH_BLOCK bytes. */
static uint64_t
sum_of_block(const unsigned char *data, size_t bytes, uint64_t number)
{
    struct sums sums = {{0}, {0}};
    unsigned rows = (unsigned)(bytes / HASH_ROW), rest = (unsigned)(bytes % HASH_ROW);
    add_rows(&sums, data, rows);
    if (rest > 0)
        add_last(&sums, data + (size_t)rows * HASH_ROW, rest, rows);
    uint64_t sum = 0;
    for (unsigned column = 0; column < HASH_COLUMNS && column * HASH_PIECE < bytes; ++column)
        sum += hash_of_column(sums.even[column], sums.odd[column], number * HASH_COLUMNS + column);
    return sum;
}

uint64_t
hash_part(uint64_t sum, uint64_t before, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (uint64_t number = before / HASH_BLOCK; bytes > 0; ++number) {
        size_t here = bytes < HASH_BLOCK ? bytes : HASH_BLOCK;
        sum += sum_of_block(at, here, number);
        at += here;
        bytes -= here;
    }
    return sum;
}

uint64_t
hash_end(uint64_t sum, uint64_t bytes)
{
    return hash_mix(sum + hash_mix(bytes + HASH_STEP));
}

uint64_t
hash_bytes(const void *data, size_t bytes)
{
    return hash_end(hash_part(0, 0, data, bytes), bytes);
}

uint64_t
hash_chain(uint64_t before, uint64_t hash)
{
    return hash_mix(hash_mix(before + HASH_STEP) + hash);
}

uint64_t
hash_exponents(uint64_t exponent, size_t element_bytes)
{
    for (size_t bits = 8 * element_bytes; exponent != 0 && bits < 64; bits *= 2)
        exponent |= exponent << bits;
    return exponent;
}

/* The exponent of each type lies within two bytes: all its bits are set where it is the greatest that there can be. */
bool
hash_has_infinite(const void *data, size_t bytes, uint64_t exponents)
{
    const unsigned char *at = data;
    uint64_t infinite = 0, last = 0;
#ifdef __SSE2__
    const __m128i all = _mm_set1_epi64x((long long)exponents);
    __m128i greatest[4] = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};
    for (; bytes >= sizeof(greatest); bytes -= sizeof(greatest), at += sizeof(greatest)) {
        for (int i = 0; i < 4; ++i) {
            __m128i piece = _mm_loadu_si128((const __m128i *)(const void *)at + i);
            greatest[i] = _mm_max_epi16(greatest[i], _mm_and_si128(piece, all));
        }
    }
    for (int i = 0; i < 4; ++i) {
        uint64_t words[2];
        _mm_storeu_si128((__m128i *)(void *)words, greatest[i]);
        infinite |= hash_infinite(words[0], exponents) | hash_infinite(words[1], exponents);
    }
#endif
    for (; bytes >= sizeof(last); bytes -= sizeof(last), at += sizeof(last))
        infinite |= hash_infinite(load(at), exponents);
    memcpy(&last, at, bytes);
    return (infinite | hash_infinite(last, exponents)) != 0;
}

void
hash_look(const void *data, size_t bytes, uint64_t exponents, struct hash_result *found)
{
    const unsigned char *at = data;
    uint64_t infinite = 0, any = 0, last = 0;
    for (; bytes >= sizeof(last); bytes -= sizeof(last), at += sizeof(last)) {
        infinite |= hash_infinite(load(at), exponents);
        any |= load(at);
    }
    memcpy(&last, at, bytes);
    infinite |= hash_infinite(last, exponents);
    any |= last;
    found->infinite |= infinite != 0;
    found->nonzero |= (any & ~hash_signs(exponents)) != 0;
}

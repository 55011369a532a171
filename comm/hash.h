/*
 * hash.h - the hash of tensors, on the host: 64 bits of any number of bytes at any address. The kernel ddprun_hash
 * computes the same bits from device memory. Pure functions, for any thread. Not for secrets: with the definition one
 * can make two contents that have the same hash.
 *
 * Modulo 2^64, with mix, step and keys of kernels/hash.h; lo and hi are a word's lower and upper 32 bits. Blocks of
 * 4,096 bytes, the last may be shorter, are 32 rows of 8 pieces of 16 bytes. Pieces below each other are a column;
 * column c of block b has the number n = 8 b + c. A piece is two words x and y, least significant byte first, with
 * zeros after the last byte. Pieces without a byte, and columns without a piece, do not exist. Over its rows r:
 * - even = sum of  lo(x ^ key(2r)) * hi(x ^ key(2r)) + y
 * - odd = sum of  lo(y ^ key(2r + 1)) * hi(y ^ key(2r + 1)) + x
 * - column(n) = mix(mix(even + (n + 1) * step) + odd)
 * - hash = mix(sum of all columns + mix(bytes + step))
 *
 * No bytes: 48218226ff3cd4bf. One byte, 0: b51b6152c97ee4ad. 5,000 bytes, byte i being i mod 256: 23581076c2b86fe0.
 *
 * One changed word changes even or odd for certain: it is also added, unmultiplied, to the other sum. Else two contents
 * have the same hash with a probability of 2^-64; if they differ in two words of one column, of up to 2^-32.
 */
#ifndef DDPRUN_COMM_HASH_H
#define DDPRUN_COMM_HASH_H

#include "comm/kernels/hash.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The hash of memory. */
uint64_t hash_bytes(const void *data, size_t bytes);

/* In parts, in order: adds `bytes` bytes that lie after `before` others, a multiple of HASH_BLOCK, to the sum of
 * those, which is 0 at first. */
uint64_t hash_part(uint64_t sum, uint64_t before, const void *data, size_t bytes);

/* The hash of `bytes` bytes from the sum of all parts. */
uint64_t hash_end(uint64_t sum, uint64_t bytes);

/* Of a hash and one that follows: depends on their order. */
uint64_t hash_chain(uint64_t before, uint64_t hash);

/* The exponents of elements of `element_bytes` bytes (2, 4 or 8) whose exponent has these bits, for `looked_at`. */
uint64_t hash_exponents(uint64_t exponent, size_t element_bytes);

/* What an element of `data` is, infinite or not zero, goes into *found; its sum is left alone. */
void hash_look(const void *data, size_t bytes, uint64_t exponents, struct hash_result *found);

/* Whether an element of `data` is infinite or NaN; in a quarter of the time. */
bool hash_has_infinite(const void *data, size_t bytes, uint64_t exponents);

#ifdef __cplusplus
}
#endif
#endif

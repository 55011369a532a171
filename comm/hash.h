/*
 * hash.h - the hash of tensors, on the host: 64 bits of any number of bytes at any address.
 *
 * The kernel ddprun_hash computes the same bits from device memory. Pure functions, for any thread. It depends on the
 * bytes and their number alone, not on address, alignment, type or number of threads; -0.0 and 0.0 differ. The closing
 * lines print the hash of the hashes of all parameters and states, in the order of their annotations (hash_chain()).
 *
 * Definition, modulo 2^64; lo and hi are the lower and the upper 32 bits of a word; mix, step and keys are those of
 * kernels/hash.h:
 * - Blocks of 4,096 bytes, the last may be shorter: 32 rows of 8 pieces of 16 bytes. Pieces below each other are a
 *   column; column c of block b has the number n = 8 b + c.
 * - A piece is two words x and y, least significant byte first; in the last piece, bytes after the end are zero. Pieces
 *   without a byte, and columns without a piece, do not exist.
 * - A column with pieces (x, y) in rows r:
 *       even = sum of  lo(x ^ key(2r)) * hi(x ^ key(2r)) + y
 *       odd  = sum of  lo(y ^ key(2r + 1)) * hi(y ^ key(2r + 1)) + x
 *       column(n) = mix(mix(even + (n + 1) * step) + odd)
 * - The hash: mix(sum of all columns + mix(bytes + step)).
 * No bytes: 48218226ff3cd4bf. One byte, 0: b51b6152c97ee4ad. 5,000 bytes, byte i being i mod 256: 23581076c2b86fe0.
 *
 * Columns may be added in any order, so threads need no second pass, and a part from a multiple of 4,096 bytes on is
 * hashed by itself. One changed word changes even or odd for certain: it is also added, unmultiplied, to the other sum.
 * Words that change places meet other keys, columns and blocks other numbers, and zeros at the end another length. Two
 * contents have the same hash with a probability of 2^-64; if they differ in two words of one column, of up to 2^-32.
 * Not for secrets: with the definition one can make two contents that have the same hash.
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

/* In parts, in order: adds `bytes` bytes that lie behind `before` others, a multiple of HASH_BLOCK, to the sum of
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

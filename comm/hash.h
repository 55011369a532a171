/*
 * hash.h - the hash of tensors, on the host: 64 bits of any number of bytes at any address (docs/hash.md).
 *
 * The kernel ddprun_hash computes the same bits from device memory. Pure functions, for any thread. Not for secrets:
 * who knows the hash can make two contents that have the same.
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

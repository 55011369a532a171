/*
 * words.h - where in a piece of memory do 64-bit words lie that could be addresses of a range?
 *
 * Looked for in everything that a trainer copies to its device, batches of inputs included, so it has to run at the
 * speed of memory.
 *
 * Pure.
 */
#ifndef DDPRUN_BUCKETING_WORDS_H
#define DDPRUN_BUCKETING_WORDS_H

#include <stddef.h>
#include <stdint.h>

#define WORDS_NONE SIZE_MAX

/*
 * The first offset >= from, a multiple of 4, at which the 8 bytes of memory[0..bytes) are a number in [low, high), in
 * the machine's byte order; WORDS_NONE if there is none. Multiples of 4, because pointers in packed structs may lie at
 * the odd ones. `from` is a multiple of 4; memory need not be aligned.
 */
size_t words_find(const void *memory, size_t bytes, size_t from, uint64_t low, uint64_t high);

#endif

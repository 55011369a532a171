/*
 * words.h - where in a piece of memory do 64-bit words lie that could be addresses?
 *
 * Looked for in everything that a trainer copies to its device, batches of inputs included, so it has to run at the
 * speed of memory: about half an instruction a byte where vectors have 32 bytes. Of an address, inputs are
 * distinguished by both halves: 3 and 0x7ff0 are ordinary token ids, and allocations lie after 0x3'02000000 and
 * 0x7ff0'........ .
 *
 * Pure.
 */
#ifndef DDPRUN_BUCKETING_WORDS_H
#define DDPRUN_BUCKETING_WORDS_H

#include "bucketing/ranges.h"

#include <stddef.h>
#include <stdint.h>

#define WORDS_NONE SIZE_MAX

enum { WORDS_SPANS = 2 }; /* for pools, and for all else */

/* Numbers in [low, high) of any span are looked for. */
struct words_spans {
    size_t count;
    struct {
        uint64_t low, high;
    } spans[WORDS_SPANS]; /* ascending */
};

/* Spans that hold all of the ranges, and of what lies between them as little as so few spans can. */
struct words_spans words_spans_of(struct ranges *ranges);

/*
 * The first offset >= from, a multiple of 4, at which the 8 bytes of memory[0..bytes) are a number that is looked for,
 * in the machine's byte order; WORDS_NONE if there is no such offset. Multiples of 4, because pointers in packed
 * structs may lie at the odd ones. `from` is a multiple of 4; memory need not be aligned.
 */
size_t words_find(const void *memory, size_t bytes, size_t from, const struct words_spans *spans);

#endif

/*
 * words.c - see words.h. Little-endian machines, as all that CUDA runs on.
 *
 * The upper halves of all words in the range begin with the bits that those of its bounds have in common. That is what
 * is looked for first, in blocks of vectors and at every place at once; a block with a candidate is then gone through
 * word by word.
 */
#include "bucketing/words.h"

#include <stdbool.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the upper half of a word comes second");

enum { LANES = 4, VECTORS = 16, STEP = 4, BLOCK_BYTES = LANES * VECTORS * STEP };

typedef uint32_t lanes __attribute__((vector_size(LANES * sizeof(uint32_t))));

/* What the upper halves of a range's words have in common. */
struct prefix {
    uint32_t mask, bits;
};

static struct prefix
common_prefix(uint64_t low, uint64_t high)
{
    uint32_t lowest = (uint32_t)(low >> 32), differ = lowest ^ (uint32_t)((high - 1) >> 32), mask = UINT32_MAX;
    while (differ & mask)
        mask <<= 1;
    return (struct prefix){mask, lowest & mask};
}

/* Whether one of the BLOCK_BYTES / 4 numbers at `halves` begins with the prefix. */
static bool
block_has(const unsigned char *halves, struct prefix prefix)
{
    lanes mask = {prefix.mask, prefix.mask, prefix.mask, prefix.mask};
    lanes bits = {prefix.bits, prefix.bits, prefix.bits, prefix.bits}, found = {0, 0, 0, 0};
    for (size_t i = 0; i < VECTORS; ++i) {
        lanes here;
        memcpy(&here, halves + i * sizeof(here), sizeof(here));
        found |= (lanes)((here & mask) == bits);
    }
    return (found[0] | found[1] | found[2] | found[3]) != 0;
}

static bool
is_in(const unsigned char *at, uint64_t low, uint64_t high)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word >= low && word < high;
}

size_t
words_find(const void *memory, size_t bytes, size_t from, uint64_t low, uint64_t high)
{
    if (high <= low)
        return WORDS_NONE;
    const unsigned char *start = memory;
    struct prefix prefix = common_prefix(low, high);
    size_t at = from;
    while (at + sizeof(uint64_t) <= bytes) {
        bool whole = bytes - at >= BLOCK_BYTES + STEP; /* the block's upper halves begin one place later */
        size_t end = whole ? at + BLOCK_BYTES : bytes - (sizeof(uint64_t) - 1);
        if (!whole || block_has(start + at + STEP, prefix)) {
            for (size_t place = at; place < end; place += STEP) {
                if (is_in(start + place, low, high))
                    return place;
            }
        }
        if (!whole)
            break;
        at = end;
    }
    return WORDS_NONE;
}

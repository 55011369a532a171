/*
 * changed_inputs.h - other contents of the same type, for memory that a launch gets. Pure.
 *
 * What is asked of each word of large memory is inline.
 */
#ifndef DDPRUN_TOOLS_SCOUT_TRAINER_CHANGED_INPUTS_H
#define DDPRUN_TOOLS_SCOUT_TRAINER_CHANGED_INPUTS_H

#include "tools/near/element.h"

#include <stdbool.h>

/* As what a segment is changed. Numbers of both signs change theirs, too: some updates are by nothing but the sign.
 * Words may be pairs of 16-bit numbers, where a kernel's name or a call names the type. */
enum change { CHANGE_NONE, CHANGE_FLOAT, CHANGE_SIGNED, CHANGE_HALVES, CHANGE_BFLOATS, CHANGE_INTEGER };

/* Of a function with loops over all of a launch's memory: there is one with wider vectors besides, for processors that
 * have them. The loader chooses, which it cannot in a program with a sanitizer. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define WITH_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define WITH_WIDE_VECTORS
#endif

/* The exponents of about 1e-14 to 1e10. */
enum { CHANGE_LEAST_EXPONENT = 0x50, CHANGE_MOST_EXPONENT = 0xA0, CHANGE_EXPONENT_SHIFT = 23 };

static inline bool
change_looks_like_float(uint32_t word)
{
    uint32_t exponent = word >> CHANGE_EXPONENT_SHIFT & 0xFF;
    return exponent - (CHANGE_LEAST_EXPONENT + 1U) < CHANGE_MOST_EXPONENT - CHANGE_LEAST_EXPONENT - 1U;
}

/* Whether the word is zero, also the negative one, which sums and products leave here and there among others. */
static inline bool
change_is_zero(uint32_t word)
{
    return word << 1 == 0;
}

/* Whether the word is smaller than numbers are otherwise, as probabilities of a trained net are: among numbers as
 * good as zero. Whole numbers up to 2^23 have no such exponent. */
static inline bool
change_is_tiny(uint32_t word)
{
    return (word >> CHANGE_EXPONENT_SHIFT & 0xFF) - 1U < CHANGE_LEAST_EXPONENT;
}

/*
 * What a word becomes among numbers with a fraction. `held_floats`: zeros and tiny numbers are changed, too. All of it
 * is computed for each word, from 1 where the word is something else, so that loops over words become vector
 * instructions and none of them raises what computing with any bits would.
 */
static inline uint32_t
change_float(uint32_t word, bool held_floats)
{
    const uint32_t sign = UINT32_C(1) << 31, one = UINT32_C(127) << CHANGE_EXPONENT_SHIFT;
    uint32_t is_float = -(uint32_t)change_looks_like_float(word);
    uint32_t is_zero =
        -((uint32_t)held_floats & ((uint32_t)change_is_zero(word) | (uint32_t)change_is_tiny(word))) & ~is_float;
    uint32_t least = element_to_bits(1e-3F), not_zero = UINT32_C(0x3E803E80); /* 0.25, in pairs of 16 bits, too */
    float value = element_from_bits((word & is_float) | (one & ~is_float));
    uint32_t changed = element_to_bits(value * 1.3F + element_from_bits(least | (word & sign & is_float)));
    return (changed & is_float) | (not_zero & is_zero) | (word & ~is_float & ~is_zero);
}

/* The same, a quarter of it: what keeps the smallest of all does not depend on larger ones. */
static inline uint32_t
change_lower(uint32_t word, bool held_floats)
{
    const uint32_t quarter = UINT32_C(2) << CHANGE_EXPONENT_SHIFT, below_zero = UINT32_C(0xBE800000); /* -0.25 */
    if (!change_looks_like_float(word))
        return held_floats && change_is_zero(word) ? below_zero : word;
    return word - quarter;
}

static inline bool
change_is_of_floats(enum change change)
{
    return change > CHANGE_NONE && change < CHANGE_INTEGER;
}

static inline bool
change_is_of_pairs(enum change change)
{
    return change == CHANGE_HALVES || change == CHANGE_BFLOATS;
}

/* Both numbers of a pair: by the highest bit of their fraction, or by two of their exponent. No infinity changes. Of
 * two signs the lower number changes its own. */
static inline uint32_t
change_pair(uint32_t word, enum change change, bool much)
{
    uint32_t shift = change == CHANGE_HALVES ? 10 : 7, most = change == CHANGE_HALVES ? 0x1F : 0xFF, to = 0;
    uint32_t sign = (word ^ word >> 16) & 0x8000;
    for (uint32_t at = 0; at < 32; at += 16, sign = 0) {
        uint32_t half = word >> at & 0xFFFF, exponent = half >> shift & most;
        if ((half & 0x7FFF) == 0)
            half = change == CHANGE_HALVES ? 0x3400 : 0x3E80; /* 0.25 */
        else if (exponent < most && much)
            half = (exponent + 2 < most ? half + (2U << shift) : half - (2U << shift)) ^ sign;
        else if (exponent < most)
            half ^= 1U << (shift - 1) | sign;
        to |= half << at;
    }
    return to;
}

/* What words [count] become, in to[count]; of those with signs, every second one changes it: `odd` is the first one's
 * turn. `integers`: what CHANGE_INTEGER makes of them. */
static inline void
change_words(enum change change, const uint32_t *restrict words, const uint32_t *restrict integers, bool held_floats,
             size_t count, uint32_t odd, uint32_t *restrict to)
{
    if (change_is_of_pairs(change)) {
        for (size_t i = 0; i < count; ++i)
            to[i] = change_pair(words[i], change, change == CHANGE_BFLOATS); /* of eight bits less would not show */
        return;
    }
    if (change_is_of_floats(change)) {
        const uint32_t signs = change == CHANGE_SIGNED;
        for (size_t i = 0; i < count; ++i) { /* no branch, and no stride: it becomes vector instructions */
            uint32_t is_turned = (uint32_t)change_looks_like_float(words[i]) & ((uint32_t)i ^ odd) & signs;
            to[i] = change_float(words[i], held_floats) ^ is_turned << 31;
        }
        return;
    }
    memcpy(to, change == CHANGE_INTEGER ? integers : words, count * sizeof(*to));
}

/* Whether a word of 4 or 8 bytes is a number with a fraction, or two of them, rather than a count. */
bool change_is_number(const char *word, size_t bytes);
/* How words [first, end) are to be changed; `named`: enum scout_type, as it is said of them. */
enum change change_choose(const uint32_t *words, size_t first, size_t end, bool held_floats, uint32_t named);
/* A larger change of one word, for few of them. False: the word is no number, and stays. */
bool change_one(uint32_t *word, enum change change, bool held_floats);
/* A change that is its own reverse. */
void change_reversibly(uint32_t *words, size_t count);
bool change_looks_like_floats(const uint32_t *words, size_t count);
/* Whether enough words are not zero to guess a type by them. */
bool change_shows_type(const uint32_t *words, size_t first, size_t end);
/* enum scout_type of what the segment seems to hold. */
uint32_t change_type(const uint32_t *words, size_t first, size_t end, enum change change);

/* Looks at a word, of `end`, that has changed; what it was is in kinds[], zero to begin with. `is_wide`: as at a word
 * of float64. */
void whole_look(uint8_t *kinds, const uint32_t *before, const uint32_t *after, size_t at, size_t end, bool is_wide);
/* The first of [from, to) that was always a whole number, and not always zero; `to`: there is none. */
size_t whole_next(const uint8_t *kinds, size_t from, size_t to);

#endif

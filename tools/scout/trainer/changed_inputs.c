/*
 * changed_inputs.c - other contents for memory, of the type that it seems to hold. Pure.
 *
 * A launch is made again with what it gets from here, so no index may leave its bounds and no number become NaN: words
 * that look like numbers with a fraction become others of that kind, whole numbers what they were in another period
 * (integers.c), and zeros stay where nothing else was ever seen. Pairs of 16-bit numbers are changed as such where a
 * name says it. Seen as 32 bits, others stay what they are, and so do halves of 64-bit ones.
 */
#include "tools/scout/trainer/scout.h"

/* How many of the words look like numbers with a fraction, and how many are zero, or tiny. */
struct likes {
    size_t floats, zeros, tiny, others;
};

/* How many words look like floats, are zero, are tiny numbers, or are none of these. */
static struct likes WITH_WIDE_VECTORS
count_likes(const uint32_t *words, size_t count)
{
    enum { PIECE = 1 << 16 }; /* counted in 32 bits each, of which vectors hold more */
    struct likes likes = {0};
    for (size_t at = 0; at < count; at += PIECE) {
        uint32_t floats = 0, zeros = 0, tiny = 0, piece = count - at < PIECE ? (uint32_t)(count - at) : PIECE;
        for (uint32_t i = 0; i < piece; ++i) {
            floats += change_looks_like_float(words[at + i]);
            zeros += change_is_zero(words[at + i]);
            tiny += change_is_tiny(words[at + i]);
        }
        likes.floats += floats;
        likes.zeros += zeros;
        likes.tiny += tiny;
    }
    likes.others = count - likes.floats - likes.zeros;
    return likes;
}

/* Whether at least a quarter of the `all` numbers have each sign: what is below zero by chance, as halves of 64-bit
 * numbers, is less. */
static bool WITH_WIDE_VECTORS
has_both_signs(const uint32_t *words, size_t first, size_t end, size_t all)
{
    enum { SAMPLE = 1024, PIECE = 1024 };
    size_t floats = 0, below = 0, wanted = all < SAMPLE ? all : SAMPLE;
    for (size_t at = first; at < end && floats < wanted; at += PIECE) {
        uint32_t count = end - at < PIECE ? (uint32_t)(end - at) : PIECE, numbers = 0, signs = 0;
        for (uint32_t i = 0; i < count; ++i) {
            numbers += change_looks_like_float(words[at + i]);
            signs += (uint32_t)change_looks_like_float(words[at + i]) & words[at + i] >> 31;
        }
        floats += numbers;
        below += signs;
    }
    return below * 4 >= floats && (floats - below) * 4 >= floats;
}

enum change
change_choose(const uint32_t *words, size_t first, size_t end, bool held_floats, uint32_t named)
{
    if (named == SCOUT_FLOAT16 || named == SCOUT_BFLOAT16)
        return named == SCOUT_FLOAT16 ? CHANGE_HALVES : CHANGE_BFLOATS;
    struct likes likes = count_likes(words + first, end - first);
    if (held_floats)
        likes.others -= likes.tiny;
    if (likes.floats > 0 && likes.floats >= likes.others)
        return has_both_signs(words, first, end, likes.floats) ? CHANGE_SIGNED : CHANGE_FLOAT;
    if (likes.floats == 0 && likes.others == 0)
        return held_floats ? CHANGE_FLOAT : CHANGE_NONE;
    return CHANGE_INTEGER;
}

/* Whether the word looks like the upper half of a 64-bit number, of about 1e-19 to 1e14. */
static bool
is_upper(uint32_t word)
{
    unsigned exponent = word >> 20 & 0x7FF;
    return exponent > 0x3C0 && exponent < 0x430;
}

bool
change_is_number(const char *word, size_t bytes)
{
    uint32_t low, high = 0;
    if (bytes < sizeof(low))
        return false;
    memcpy(&low, word, sizeof(low));
    memcpy(&high, word + (bytes < 2 * sizeof(high) ? 0 : sizeof(high)), sizeof(high));
    return (bytes == 2 * sizeof(high) && is_upper(high)) ||
           (change_looks_like_float(low) && change_looks_like_float(high));
}

bool
change_one(uint32_t *word, enum change change, bool held_floats)
{
    if (change_is_of_pairs(change)) {
        *word = change_pair(*word, change, true);
        return true;
    }
    if (!change_looks_like_float(*word) && !((change_is_zero(*word) || change_is_tiny(*word)) && held_floats))
        return false;
    float value = element_from_bits(*word);
    value = value * 3.0F + (value >= 0 ? 0.5F : -0.5F);
    *word = element_to_bits(change == CHANGE_SIGNED ? -value : value);
    return true;
}

/* The highest bit of the fraction: the number stays within a factor of 1.5, and what it looks like stays. */
void WITH_WIDE_VECTORS
change_reversibly(uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        words[i] ^= (uint32_t)change_looks_like_float(words[i]) << (CHANGE_EXPONENT_SHIFT - 1);
}

bool
change_looks_like_floats(const uint32_t *words, size_t count)
{
    struct likes likes = count_likes(words, count);
    return likes.floats > likes.others;
}

/* Numbers of 16 bits, and which exponents trained ones have. */
static const struct half {
    unsigned exponent_shift, mask, least, most;
} bfloat16 = {7, 0xFF, 0x60, 0x8F} /* noise has others in its lower half */, float16 = {10, 0x1F, 4, 0x12};

static bool
is_half(uint32_t bits, const struct half *half)
{
    unsigned exponent = bits >> half->exponent_shift & half->mask;
    return exponent >= half->least && exponent <= half->most;
}

/* Of pairs of numbers: whether most words have both halves in the range of exponents that trained numbers have. */
static bool
looks_like_halves(const uint32_t *words, size_t first, size_t end, const struct half *half)
{
    size_t like = 0, seen = 0;
    for (size_t i = first; i < end; ++i) {
        seen += words[i] != 0;
        like += words[i] != 0 && is_half(words[i], half) && is_half(words[i] >> 16, half);
    }
    return seen > 0 && like * 10 >= seen * 9;
}

/* Whether every second word looks like the upper half of a 64-bit number, and the other one like noise. */
static bool
looks_like_doubles(const uint32_t *words, size_t first, size_t end)
{
    size_t like = 0, noise = 0, seen = 0;
    for (size_t i = first + first % 2; i + 1 < end; i += 2) {
        if (words[i] == 0 && words[i + 1] == 0)
            continue;
        ++seen;
        like += is_upper(words[i + 1]);
        noise += !change_looks_like_float(words[i]);
    }
    return seen > 1 && like * 10 >= seen * 9 && noise * 4 >= seen;
}

/* Of a large part its beginning says it, where that is not all zero; zeros at the end say nothing. A pair of words is
 * not parted. */
static size_t WITH_WIDE_VECTORS
end_of_sample(const uint32_t *words, size_t first, size_t end)
{
    enum { SAMPLE = 4096, PIECE = 1024 };
    size_t seen = 0, at = first, last = first;
    while (at < end && seen < SAMPLE) {
        uint32_t count = end - at < PIECE ? (uint32_t)(end - at) : PIECE, others = 0;
        for (uint32_t i = 0; i < count; ++i)
            others += words[at + i] != 0;
        seen += others;
        at += count;
        last = others > 0 ? at : last;
    }
    return last < at ? last + 1 : at;
}

/* Whether enough words are not zero to guess a type by them. Few show it if all look like 32-bit numbers, and enough
 * of them like nothing else. Of drawn ones: 10 floats do in 86 of 100 cases; 20 halves never did in 100,000; 5
 * doubles, of which each second word is noise, in 3 of 1,000. */
bool
change_shows_type(const uint32_t *words, size_t first, size_t end)
{
    enum { LEAST_WORDS = 64, LEAST_FLOATS = 10 };
    size_t seen = 0, floats = 0, noise = 0;
    for (size_t i = first; i < end && seen < LEAST_WORDS; ++i) {
        seen += !change_is_zero(words[i]);
        floats += change_looks_like_float(words[i]);
        /* the lower half is noise, as that of a 32-bit number is, and no 16-bit number that was trained */
        noise += change_looks_like_float(words[i]) && (words[i] & 0xFFFF) != 0 && !is_half(words[i], &bfloat16) &&
                 !is_half(words[i], &float16);
    }
    return seen == LEAST_WORDS || (seen >= LEAST_FLOATS && floats == seen && noise * 5 >= seen * 2);
}

uint32_t
change_type(const uint32_t *words, size_t first, size_t end, enum change change)
{
    end = end_of_sample(words, first, end);
    if (change == CHANGE_INTEGER)
        return SCOUT_INTEGER;
    if (change == CHANGE_NONE)
        return SCOUT_UNKNOWN;
    if (looks_like_doubles(words, first, end))
        return SCOUT_FLOAT64;
    if (looks_like_halves(words, first, end, &bfloat16))
        return SCOUT_BFLOAT16;
    if (looks_like_halves(words, first, end, &float16))
        return SCOUT_FLOAT16;
    return SCOUT_FLOAT32;
}

/* ---- words that hold whole numbers among floats, as a count in a struct of weights ---- */

/* A word that held a float once is a float. So is one that falls back to zero, goes up and down, or far: numbers below
 * all floats, as the gradients of classes that are sure, look like whole ones. The lower half of a float64 looks whole
 * in one of 256 cases: it has to do so four times; of what is no such half once is enough. */
enum { ENOUGH = 4, COUNT = 7, GOES_UP = 0x10, GOES_DOWN = 0x20, HELD_FLOAT = 0x80, MOST_STEP = 1 << 16 };

static bool
looks_whole(uint32_t word)
{
    const uint32_t least = UINT32_C(0xFFF00000); /* -2^20; above the NaN that CPUs make */
    return word >> CHANGE_EXPONENT_SHIFT == 0 || word > least;
}

void
whole_look(uint8_t *kinds, const uint32_t *before, const uint32_t *after, size_t at, size_t end, bool is_wide)
{
    size_t upper = at | 1;
    bool is_half = is_wide && upper < end && !looks_whole(after[upper]),
         goes_up = (int32_t)after[at] > (int32_t)before[at];
    uint32_t step = goes_up ? after[at] - before[at] : before[at] - after[at], count = kinds[at] & COUNT;
    uint8_t way = goes_up ? GOES_UP : GOES_DOWN, other = goes_up ? GOES_DOWN : GOES_UP;
    bool is_whole = looks_whole(before[at]) && looks_whole(after[at]) && after[at] != 0 && step <= MOST_STEP;
    if (!is_whole || (kinds[at] & (HELD_FLOAT | other)) != 0)
        kinds[at] = HELD_FLOAT;
    else
        kinds[at] = (uint8_t)(way | (is_half && count < ENOUGH ? count + 1 : ENOUGH));
}

enum { SEVERAL = sizeof(uint64_t) };

/* Whether none of several words from this one on has ever changed, as most of a large memory. */
static bool
are_unchanged(const uint8_t *kinds, size_t from, size_t to)
{
    uint64_t several;
    if (from + SEVERAL > to)
        return false;
    memcpy(&several, kinds + from, SEVERAL);
    return several == 0;
}

size_t
whole_next(const uint8_t *kinds, size_t from, size_t to)
{
    while (from < to && (kinds[from] & (HELD_FLOAT | COUNT)) != ENOUGH)
        from += are_unchanged(kinds, from, to) ? SEVERAL : 1;
    return from;
}

/*
 * words.c - see words.h. Little-endian machines, as all that CUDA runs on.
 *
 * Blocks are compared in vectors, at every multiple of 4 at once: the upper halves of words with those of a span's
 * bounds, and the lower halves too, where the bounds have the same upper half. A block with a candidate is then gone
 * through word by word.
 */
#include "bucketing/words.h"

#include "base/assertion.h"

#include <stdbool.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the upper half of a word comes second");

enum { LANES = 8, VECTORS = 8, STEP = 4, BLOCK_BYTES = LANES * VECTORS * STEP };

typedef int32_t lanes __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef uint32_t unsigned_lanes __attribute__((vector_size(LANES * sizeof(uint32_t))));

/* x lies in [least, most] if (int32_t)(x + shift) <= bound: machines compare signed numbers. */
struct half {
    uint32_t shift;
    int32_t bound;
};

static struct half
half_of(uint32_t least, uint32_t most)
{
    const uint32_t middle = UINT32_C(1) << 31;
    return (struct half){middle - least, (int32_t)(most - least + middle)};
}

/* A span for comparisons of halves. */
struct halves {
    struct half upper, lower;
};

static struct halves
halves_of(uint64_t low, uint64_t last)
{
    uint32_t upper = (uint32_t)(low >> 32);
    bool same = upper == last >> 32;
    return (struct halves){half_of(upper, (uint32_t)(last >> 32)),
                           same ? half_of((uint32_t)low, (uint32_t)last) : half_of(0, UINT32_MAX)};
}

/*
 * Whether a word of the block at `start` may lie in one of WORDS_SPANS spans; outside[] is then 0 at its place. A
 * macro, because vectors of a function that is inlined are those of the machine that it was compiled for.
 */
#define DEFINE_BLOCK(name, machine)                                                                  \
    static bool machine name(const unsigned char *start, const struct halves *spans, lanes *outside) \
    {                                                                                                \
        const struct halves first = spans[0], second = spans[1];                                     \
        lanes kept = {-1, -1, -1, -1, -1, -1, -1, -1};                                               \
        _Pragma("GCC unroll 8") for (size_t i = 0; i < VECTORS; ++i)                                 \
        {                                                                                            \
            unsigned_lanes above, below;                                                             \
            memcpy(&above, start + i * sizeof(above) + STEP, sizeof(above));                         \
            memcpy(&below, start + i * sizeof(below), sizeof(below));                                \
            outside[i] = (((lanes)(above + first.upper.shift) > first.upper.bound) |                 \
                          ((lanes)(below + first.lower.shift) > first.lower.bound)) &                \
                         (((lanes)(above + second.upper.shift) > second.upper.bound) |               \
                          ((lanes)(below + second.lower.shift) > second.lower.bound));               \
            kept &= outside[i];                                                                      \
        }                                                                                            \
        uint64_t all = UINT64_MAX, each[sizeof(kept) / sizeof(all)];                                 \
        memcpy(each, &kept, sizeof(each));                                                           \
        for (size_t i = 0; i < sizeof(kept) / sizeof(all); ++i)                                      \
            all &= each[i];                                                                          \
        return all != UINT64_MAX;                                                                    \
    }
_Static_assert(WORDS_SPANS == 2, "as many are compared");

DEFINE_BLOCK(block_plain, )
#if defined(__x86_64__) && !defined(WORDS_PLAIN) /* a test compares without */
#define HAS_AVX2 1
DEFINE_BLOCK(block_avx2, __attribute__((target("avx2"))))
#endif

typedef bool (*block_fn)(const unsigned char *start, const struct halves *spans, lanes *outside);

static block_fn
choose_block(void)
{
#ifdef HAS_AVX2
    if (__builtin_cpu_supports("avx2"))
        return block_avx2;
#endif
    return block_plain;
}

static bool
is_in(const unsigned char *at, const struct words_spans *spans)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    for (size_t s = 0; s < spans->count; ++s) {
        if (word >= spans->spans[s].low && word < spans->spans[s].high)
            return true;
    }
    return false;
}

/* The first place in the block at `start` whose word is in a span, of those where outside[] is 0; or WORDS_NONE. */
static size_t
find_in_block(const unsigned char *start, const int32_t *outside, const struct words_spans *spans)
{
    for (size_t i = 0; i < BLOCK_BYTES / STEP; ++i) {
        if (outside[i] == 0 && is_in(start + i * STEP, spans))
            return i * STEP;
    }
    return WORDS_NONE;
}

size_t
words_find(const void *memory, size_t bytes, size_t from, const struct words_spans *spans)
{
    union {
        lanes vectors[VECTORS];
        int32_t each[BLOCK_BYTES / STEP];
    } outside;
    struct halves halves[WORDS_SPANS];
    const unsigned char *start = memory;
    size_t at = from;
    ASSERT(from % STEP == 0);
    if (spans->count == 0)
        return WORDS_NONE;
    for (size_t s = 0; s < WORDS_SPANS; ++s) { /* what there is not is the first once more */
        size_t of = s < spans->count ? s : 0;
        halves[s] = halves_of(spans->spans[of].low, spans->spans[of].high - 1);
    }
    block_fn may_have = choose_block();
    for (; at + BLOCK_BYTES + STEP <= bytes; at += BLOCK_BYTES) { /* upper halves begin one place later */
        size_t found =
            may_have(start + at, halves, outside.vectors) ? find_in_block(start + at, outside.each, spans) : WORDS_NONE;
        if (found != WORDS_NONE)
            return at + found;
    }
    for (; at + sizeof(uint64_t) <= bytes; at += STEP) {
        if (is_in(start + at, spans))
            return at;
    }
    return WORDS_NONE;
}

/* ---- spans ---- */

/* Whether the gap before range `at` is larger than that before range `than`. */
static bool
is_wider(const struct ranges *ranges, size_t at, size_t than)
{
    const struct range *sorted = ranges->sorted;
    return than == 0 || sorted[at].begin - sorted[at - 1].end > sorted[than].begin - sorted[than - 1].end;
}

struct words_spans
words_spans_of(struct ranges *ranges)
{
    ranges_settle(ranges);
    struct words_spans spans = {0};
    size_t widest[WORDS_SPANS - 1] = {0}; /* ranges after the widest gaps; 0: none */
    for (size_t i = 1; i < ranges->count; ++i) {
        size_t at = i;
        for (size_t k = 0; k < WORDS_SPANS - 1 && at > 0; ++k) {
            if (is_wider(ranges, at, widest[k])) {
                size_t other = widest[k];
                widest[k] = at;
                at = other;
            }
        }
    }
    for (size_t first = 0; first < ranges->count;) {
        size_t end = ranges->count; /* the span ends before the next range after a wide gap */
        for (size_t k = 0; k < WORDS_SPANS - 1; ++k) {
            if (widest[k] > first && widest[k] < end)
                end = widest[k];
        }
        ASSERT(end > first && spans.count < WORDS_SPANS);
        spans.spans[spans.count].low = ranges->sorted[first].begin;
        spans.spans[spans.count++].high = ranges->sorted[end - 1].end;
        first = end;
    }
    return spans;
}

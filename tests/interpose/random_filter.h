/*
 * random_filter.h - random ranges, kernels and arguments of launches, and whether a launch touches a range, by a plain
 * search: for tests of the filter and of the hooks that ask it.
 */
#ifndef DDPRUN_TESTS_INTERPOSE_RANDOM_FILTER_H
#define DDPRUN_TESTS_INTERPOSE_RANDOM_FILTER_H

#include "interpose/engine/memory/filter_writer.h"

#include <check.h>

enum { RANGES = 300, ARGUMENTS = 11 };

static uint64_t random_seed = 1;
static struct filter_span random_spans[RANGES];
static size_t random_span_count;
static struct filter_word random_words[5 * ARGUMENTS];
static size_t random_word_count;
static uint64_t random_values[ARGUMENTS][5];
static void *random_params[ARGUMENTS];

static inline uint64_t
random_below(uint64_t limit)
{
    random_seed ^= random_seed << 13;
    random_seed ^= random_seed >> 7;
    random_seed ^= random_seed << 17;
    return random_seed % limit;
}

static inline void
set_spans(struct filter *filter, const struct filter_span *spans, size_t count)
{
    filter_set_bounds(filter, count > 0 ? spans[0].begin : UINT64_MAX, count > 0 ? spans[count - 1].end : 0);
    ck_assert(filter_set_index(filter, spans, count));
}

/*
 * Ranges of some bytes with gaps, some of them none, and a kernel of up to ARGUMENTS arguments of up to four words,
 * the only one that the filter knows afterwards.
 */
static inline CUfunction
random_round(struct filter *filter)
{
    uint64_t at = UINT64_C(0x7f0000000000) + random_below(1 << 20);
    CUfunction function = (CUfunction)(uintptr_t)(0x1000 + 0x40 * random_below(100000));
    bool clustered = random_below(2) == 1;
    random_span_count = random_below(RANGES);
    for (size_t i = 0; i < random_span_count; ++i) {
        at += random_below(3) == 0 ? 0 : random_below(clustered && i % 50 != 0 ? 300 : 1 << 22);
        random_spans[i].begin = at;
        at += 1 + random_below(random_below(4) == 0 ? 1 << 24 : 2000);
        random_spans[i].end = at;
    }
    random_word_count = 0;
    unsigned arguments = (unsigned)random_below(ARGUMENTS + 1);
    for (unsigned i = 0; i < arguments; ++i) {
        random_params[i] = random_values[i];
        size_t bytes = random_below(3) == 0 ? 8 * random_below(5) : 8;
        for (size_t word = 0; word < bytes; word += 8)
            random_words[random_word_count++] = (struct filter_word){i, word};
    }
    filter_forget_kernels(filter);
    ck_assert(filter_add_kernel(filter, function, random_words, random_word_count));
    set_spans(filter, random_spans, random_span_count);
    return function;
}

/* Near a border of a range more often than not. */
static inline uint64_t
random_address(void)
{
    if (random_span_count == 0 || random_below(8) == 0)
        return random_below(UINT64_MAX);
    const struct filter_span *span = &random_spans[random_below(random_span_count)];
    switch (random_below(4)) {
    case 0:
        return span->begin - 1 + random_below(3);
    case 1:
        return span->end - 1 + random_below(3);
    case 2:
        return span->end + random_below(1 << 12);
    default:
        return span->begin + random_below(span->end - span->begin);
    }
}

/* Fills the arguments, random_params; returns whether one of them points into a range. */
static inline bool
random_arguments(void)
{
    bool touches = false;
    for (size_t i = 0; i < random_word_count; ++i) {
        uint64_t address = random_address();
        random_values[random_words[i].argument][random_words[i].offset / 8] = address;
        for (size_t j = 0; j < random_span_count; ++j)
            touches = touches || (address >= random_spans[j].begin && address < random_spans[j].end);
    }
    return touches;
}

#endif

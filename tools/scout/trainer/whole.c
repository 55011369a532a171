/*
 * whole.c - see scout.h: words that hold whole numbers among floats, as a count in a struct of weights. Pure.
 */
#include "tools/scout/trainer/scout.h"

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

size_t
whole_next(const uint8_t *kinds, size_t from, size_t to)
{
    while (from < to && (kinds[from] & (HELD_FLOAT | COUNT)) != ENOUGH)
        ++from;
    return from;
}

/*
 * whole.c - see scout.h: words that hold whole numbers among floats, as a count in a struct of weights. Pure.
 */
#include "tools/scout/trainer/scout.h"

#include <string.h>

/* A word that held a float once is a float. The lower half of a float64 looks whole in one of 256 cases: it has to do
 * so four times; of what is no such half once is enough. */
enum { HELD_FLOAT = 0x80, ENOUGH = 4 };

static bool
looks_whole(uint32_t word)
{
    const uint32_t least = UINT32_C(0xFFF00000); /* -2^20; above the NaN that CPUs make */
    return word >> CHANGE_EXPONENT_SHIFT == 0 || word > least;
}

void
whole_look(uint8_t *kinds, const uint32_t *words, size_t at, size_t end, bool is_wide)
{
    size_t upper = at | 1;
    bool is_half = is_wide && upper < end && !looks_whole(words[upper]);
    if (words[at] == 0 || kinds[at] == HELD_FLOAT)
        return;
    if (!looks_whole(words[at]))
        kinds[at] = HELD_FLOAT;
    else
        kinds[at] = (uint8_t)(is_half && kinds[at] < ENOUGH ? kinds[at] + 1 : ENOUGH);
}

size_t
whole_next(const uint8_t *kinds, size_t from, size_t to)
{
    const uint8_t *found = memchr(kinds + from, ENOUGH, to - from);
    return found != NULL ? (size_t)(found - kinds) : to;
}

/*
 * ranges.c - see ranges.h.
 */
#include "bucketing/ranges.h"

#include "base/assertion.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RECENT_AT_MOST = 512 };

/* Index of the first range of [low, high) that ends after `address`: the only candidate to hold it. */
static size_t
first_ending_after(const struct range *sorted, size_t low, size_t high, uint64_t address)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sorted[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Behind the table there is room for what ranges_settle() sets aside. */
static int
ranges_make_room(struct ranges *ranges)
{
    if (ranges->count + RECENT_AT_MOST < ranges->capacity)
        return 1;

    size_t capacity = 2 * (ranges->count + RECENT_AT_MOST);
    struct range *grown = realloc(ranges->sorted, capacity * sizeof(*grown));
    if (grown == NULL)
        return 0;
    ranges->sorted = grown;
    ranges->capacity = capacity;
    return 1;
}

/* Whether range `at` lies after the one before it and before the next one, of [low, high). */
static bool
is_in_order(const struct range *sorted, size_t low, size_t high, size_t at)
{
    return (at == low || sorted[at - 1].end <= sorted[at].begin) &&
           (at + 1 == high || sorted[at].end <= sorted[at + 1].begin);
}

void
ranges_settle(struct ranges *ranges)
{
    size_t old = ranges->count - ranges->recent;
    struct range *sorted = ranges->sorted, *recent = sorted + ranges->count;
    if (ranges->recent > 0)
        memcpy(recent, sorted + old, ranges->recent * sizeof(*recent));
    for (size_t left = ranges->recent; left > 0; --left) {
        size_t at = first_ending_after(sorted, 0, old, recent[left - 1].begin);
        memmove(&sorted[at + left], &sorted[at], (old - at) * sizeof(*sorted));
        sorted[at + left - 1] = recent[left - 1];
        ASSERT(at == 0 || sorted[at - 1].end <= recent[left - 1].begin);
        ASSERT(is_in_order(sorted, at + left - 1, ranges->count, at + left - 1));
        old = at;
    }
    ranges->recent = 0;
}

enum ranges_status
ranges_add(struct ranges *ranges, uint64_t begin, uint64_t bytes, size_t id, struct range *other_p)
{
    uint64_t end = begin + bytes;
    if (bytes == 0 || end < begin)
        return RANGES_EMPTY;
    if (ranges->recent == RECENT_AT_MOST)
        ranges_settle(ranges);

    size_t old = ranges->count - ranges->recent;
    size_t among_old = first_ending_after(ranges->sorted, 0, old, begin);
    size_t at = first_ending_after(ranges->sorted, old, ranges->count, begin);
    bool in_old = among_old < old && ranges->sorted[among_old].begin < end;
    if (in_old || (at < ranges->count && ranges->sorted[at].begin < end)) {
        if (other_p != NULL)
            *other_p = ranges->sorted[in_old ? among_old : at];
        return RANGES_OVERLAP;
    }
    if (!ranges_make_room(ranges))
        return RANGES_NO_MEMORY;

    ranges->recent += ranges->recent > 0 || among_old < old;
    memmove(&ranges->sorted[at + 1], &ranges->sorted[at], (ranges->count - at) * sizeof(ranges->sorted[0]));
    ranges->sorted[at] = (struct range){.begin = begin, .end = end, .id = id};
    ++ranges->count;
    ASSERT(is_in_order(ranges->sorted, ranges->recent > 0 ? old : 0, ranges->count, at));
    return RANGES_OK;
}

int
ranges_remove(struct ranges *ranges, uint64_t begin)
{
    ranges_settle(ranges);
    size_t at = first_ending_after(ranges->sorted, 0, ranges->count, begin);
    if (at == ranges->count || ranges->sorted[at].begin != begin)
        return 0;

    --ranges->count;
    memmove(&ranges->sorted[at], &ranges->sorted[at + 1], (ranges->count - at) * sizeof(ranges->sorted[0]));
    return 1;
}

const struct range *
ranges_find(struct ranges *ranges, uint64_t begin, uint64_t bytes, size_t *count_p)
{
    uint64_t last = bytes == 0 ? begin : begin + (bytes - 1);
    if (last < begin) /* wraps: clip at the end of the address space */
        last = UINT64_MAX;

    ranges_settle(ranges);
    size_t first = first_ending_after(ranges->sorted, 0, ranges->count, begin), at = first;
    while (at < ranges->count && ranges->sorted[at].begin <= last)
        ++at;

    *count_p = at - first;
    return at == first ? NULL : &ranges->sorted[first];
}

void
ranges_free(struct ranges *ranges)
{
    free(ranges->sorted);
    *ranges = (struct ranges){0};
}

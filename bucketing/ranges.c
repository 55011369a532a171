/*
 * ranges.c - see ranges.h.
 */
#include "bucketing/ranges.h"

#include <stdlib.h>
#include <string.h>

/* Index of the first range that ends after `address`: the only candidate to hold it. */
static size_t
first_ending_after(const struct ranges *ranges, uint64_t address)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->sorted[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int
ranges_make_room(struct ranges *ranges)
{
    if (ranges->count < ranges->capacity)
        return 1;

    size_t capacity = ranges->capacity == 0 ? 64 : 2 * ranges->capacity;
    struct range *grown = realloc(ranges->sorted, capacity * sizeof(*grown));
    if (grown == NULL)
        return 0;
    ranges->sorted = grown;
    ranges->capacity = capacity;
    return 1;
}

enum ranges_status
ranges_add(struct ranges *ranges, uint64_t begin, uint64_t bytes, size_t id, struct range *other_p)
{
    uint64_t end = begin + bytes;
    if (bytes == 0 || end < begin)
        return RANGES_EMPTY;

    size_t at = first_ending_after(ranges, begin);
    if (at < ranges->count && ranges->sorted[at].begin < end) {
        if (other_p != NULL)
            *other_p = ranges->sorted[at];
        return RANGES_OVERLAP;
    }
    if (!ranges_make_room(ranges))
        return RANGES_NO_MEMORY;

    memmove(&ranges->sorted[at + 1], &ranges->sorted[at], (ranges->count - at) * sizeof(ranges->sorted[0]));
    ranges->sorted[at] = (struct range){.begin = begin, .end = end, .id = id};
    ++ranges->count;
    return RANGES_OK;
}

int
ranges_remove(struct ranges *ranges, uint64_t begin)
{
    size_t at = first_ending_after(ranges, begin);
    if (at == ranges->count || ranges->sorted[at].begin != begin)
        return 0;

    --ranges->count;
    memmove(&ranges->sorted[at], &ranges->sorted[at + 1], (ranges->count - at) * sizeof(ranges->sorted[0]));
    return 1;
}

const struct range *
ranges_find(const struct ranges *ranges, uint64_t begin, uint64_t bytes, size_t *count_p)
{
    uint64_t last = bytes == 0 ? begin : begin + (bytes - 1);
    if (last < begin) /* wraps: clip at the end of the address space */
        last = UINT64_MAX;

    size_t first = first_ending_after(ranges, begin), at = first;
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

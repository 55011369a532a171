/*
 * allocations.c - the device memory that exists now: what can be an address.
 *
 * Where memory lies says nothing about what lies between: pools and virtual memory are near 0x302000000, cudaMalloc's
 * at 0x7f..., and token ids, images and small numbers of two bytes look like addresses between the two. So allocations
 * are known one by one. Called by escaped_pointers.c, by annotate.c and where memory goes.
 *
 * All with the engine's lock held.
 */
#include "interpose/engine/memory/escapes.h"

static struct ranges live; /* id: enum memory_kind, of the first part where several overlapped */
static struct words_spans spans;
static bool spans_stale;

bool
allocations_add(uint64_t address, uint64_t bytes, enum memory_kind kind)
{
    uint64_t begin = address, end = address + bytes;
    struct range other;
    enum ranges_status status;
    /* What overlaps is gone without a call that was seen, or is the same memory once more. */
    while ((status = ranges_add(&live, begin, end - begin, (size_t)kind, &other)) == RANGES_OVERLAP) {
        begin = other.begin < begin ? other.begin : begin;
        end = other.end > end ? other.end : end;
        (void)ranges_remove(&live, other.begin);
    }
    spans_stale = true;
    return status != RANGES_NO_MEMORY;
}

bool
allocations_remove(uint64_t address, uint64_t bytes)
{
    size_t count;
    bool whole = true;
    const struct range *found;
    while ((found = ranges_find(&live, address, bytes, &count)) != NULL) {
        const struct range range = *found;
        (void)ranges_remove(&live, range.begin);
        if (range.begin < address)
            whole = ranges_add(&live, range.begin, address - range.begin, range.id, NULL) == RANGES_OK;
        if (range.end > address + bytes)
            whole =
                ranges_add(&live, address + bytes, range.end - address - bytes, range.id, NULL) == RANGES_OK && whole;
    }
    spans_stale = true;
    return whole;
}

bool
allocations_cover(uint64_t address, uint64_t bytes, enum memory_kind kind)
{
    size_t count;
    uint64_t at = address;
    const struct range *range = ranges_find(&live, address, bytes, &count);
    for (size_t i = 0; i < count && range[i].begin <= at; ++i) { /* one may end where another begins */
        if (kind != MEMORY_DEVICE && range[i].id != (size_t)kind)
            return false;
        at = range[i].end;
    }
    return at >= address + bytes;
}

uint64_t
allocations_bytes_at(uint64_t address)
{
    size_t count;
    const struct range *range = ranges_find(&live, address, 1, &count);
    return range != NULL && range->begin == address ? range->end - range->begin : 0;
}

struct words_spans
allocations_spans(void)
{
    if (spans_stale)
        spans = words_spans_of(&live);
    spans_stale = false;
    return spans;
}

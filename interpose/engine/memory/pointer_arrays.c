/*
 * pointer_arrays.c - memory of the device whose contents the host has copied there: arrays of pointers.
 *
 * A batched call gets an array of addresses that lies on the device. If the array came from the host, all addresses in
 * it were looked at on their way (escaped_pointers.c), and the call touches no gradient but deferred ones. Once a
 * kernel has had a pointer into it, or something else was written there, the content is unknown.
 *
 * All with the engine's lock held.
 */
#include "interpose/engine/memory/escapes.h"

enum { TABLES_AT_MOST = 256, TABLE_BYTES_AT_MOST = 1 << 20 };

struct bounded_ranges pointer_arrays;

void
pointer_arrays_copied(uint64_t address, size_t bytes, bool has_addresses)
{
    size_t count;
    const struct range *there = ranges_find(&pointer_arrays.ranges, address, bytes, &count);
    uint64_t begin = address, end = address + bytes;
    if (bytes > TABLE_BYTES_AT_MOST || (there == NULL && !has_addresses))
        return;
    if (there != NULL && count == 1 && there->begin <= begin && there->end >= end)
        return; /* as in every step */
    while ((there = ranges_find(&pointer_arrays.ranges, address, bytes, &count)) != NULL) {
        begin = there->begin < begin ? there->begin : begin;
        end = there->end > end ? there->end : end;
        (void)ranges_remove(&pointer_arrays.ranges, there->begin);
    }
    if (pointer_arrays.ranges.count == TABLES_AT_MOST)
        ranges_free(&pointer_arrays.ranges);
    if (ranges_add(&pointer_arrays.ranges, begin, end - begin, 0, NULL) != RANGES_OK)
        ranges_free(&pointer_arrays.ranges); /* out of memory: nothing is known */
    launch_filter_ranges_changed(&pointer_arrays);
}

void
pointer_arrays_touched(uint64_t address, size_t bytes)
{
    size_t count;
    const struct range *there;
    while ((there = ranges_find(&pointer_arrays.ranges, address, bytes, &count)) != NULL) {
        (void)ranges_remove(&pointer_arrays.ranges, there->begin);
        launch_filter_ranges_changed(&pointer_arrays);
    }
}

bool
pointer_arrays_know(uint64_t address, size_t bytes)
{
    size_t count;
    const struct range *there = ranges_find(&pointer_arrays.ranges, address, bytes, &count);
    return count == 1 && there->begin <= address && there->end >= address + bytes;
}

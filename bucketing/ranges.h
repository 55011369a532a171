/*
 * ranges.h - which tracked memory range does an address belong to?
 *
 * A table of disjoint address ranges, each with a number of the caller's. Looked into for every pointer argument of
 * every launch, so a search is a binary search over a flat array; changed only by annotations and frees. Many that are
 * added in a row, in any order, get their places together.
 *
 * Pure: addresses are never followed. Not thread-safe: the owner locks.
 */
#ifndef DDPRUN_BUCKETING_RANGES_H
#define DDPRUN_BUCKETING_RANGES_H

#include <stddef.h>
#include <stdint.h>

struct range {
    uint64_t begin; /* first byte */
    uint64_t end;   /* one past the last byte; end > begin */
    size_t id;      /* the caller's */
};

/* Zero-initialise before use; ranges_free() releases what it holds. */
struct ranges {
    struct range *sorted; /* by begin; disjoint */
    size_t count;
    size_t recent; /* of count, the last, which are sorted among themselves until ranges_settle() */
    size_t capacity;
};

enum ranges_status {
    RANGES_OK = 0,
    RANGES_OVERLAP, /* a range of the table shares a byte with the new one */
    RANGES_EMPTY,   /* no byte, or past the end of the address space */
    RANGES_NO_MEMORY,
};

/*
 * Adds [begin, begin + bytes). On RANGES_OVERLAP, *other_p (if not NULL) is a range in the way; the table is unchanged
 * on every failure.
 */
enum ranges_status ranges_add(struct ranges *ranges, uint64_t begin, uint64_t bytes, size_t id, struct range *other_p)
    __attribute__((warn_unused_result));

/* To be called before `sorted` is looked into; the functions below do so. */
void ranges_settle(struct ranges *ranges);

/* Removes the range that begins exactly at `begin`; returns 1 if there was one, else 0. */
int ranges_remove(struct ranges *ranges, uint64_t begin);

/*
 * The ranges that share a byte with [begin, begin + bytes), in address order: returns the first, and their number in
 * *count_p. NULL and 0 when there are none. Valid until the table changes. bytes = 1 asks for the range that an address
 * lies in.
 */
const struct range *ranges_find(struct ranges *ranges, uint64_t begin, uint64_t bytes, size_t *count_p);

void ranges_free(struct ranges *ranges);

#endif

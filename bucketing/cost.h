/*
 * cost.h - what does an all-reduce of n bytes cost?
 *
 * A table, measured or computed, made into a function of the size that is linear between the sizes of the table and
 * never decreases. All in whole numbers: ranks that have the same samples have the same function, to the last digit,
 * so that they reach the same plan. Times inside are femtoseconds, because the slope of a fast link (400 GB/s is 2.5
 * ps a byte) wants a whole number too; 63 bits of them are 2.5 hours.
 *
 * Pure. A cost is a value: copy it as you like.
 */
#ifndef DDPRUN_BUCKETING_COST_H
#define DDPRUN_BUCKETING_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COST_SEGMENTS_AT_MOST = 24 };

#define COST_FS_PER_NS INT64_C(1000000)
#define COST_MOST_FS   (INT64_C(1) << 61) /* of one all-reduce: two of them can be added */

/* One all-reduce as it was measured. */
struct cost_sample {
    uint64_t bytes;
    int64_t ns;
};

/* From `bytes` on, up to the next segment: base_fs + fs_per_byte * (size - bytes). */
struct cost_segment {
    uint64_t bytes;
    int64_t base_fs;
    int64_t fs_per_byte;
};

/* segments[0].bytes is 0. An empty cost (count 0) says that nothing is known. */
struct cost {
    size_t count;
    struct cost_segment segments[COST_SEGMENTS_AT_MOST];
};

/*
 * Fits the function to samples in rising order of size. A sample above one of a larger size counts as equal to that:
 * it is noise, which only ever adds, for an all-reduce of less never takes longer than one of more. Below the first
 * size the cost is the first sample's; above the last it continues as it rose over the last factor of four of sizes.
 * False, leaving *cost_p alone, if there is no sample, or too many, or sizes do not rise, or a time is not positive or
 * above half an hour.
 */
bool cost_fit(const struct cost_sample *samples, size_t count, struct cost *cost_p) __attribute__((warn_unused_result));

/* The cost of latency_ns + bytes / bandwidth, with bytes_per_us = MB/s. False if it cannot be computed. */
bool cost_of_link(int64_t latency_ns, double bytes_per_us, struct cost *cost_p) __attribute__((warn_unused_result));

/* The cost of one all-reduce, in femtoseconds; at most COST_MOST_FS. `cost` must not be empty. */
int64_t cost_fs(const struct cost *cost, uint64_t bytes);

/*
 * The same, but never more than bytes times the least cost per byte of any smaller size: subadditive, envelope(a + b)
 * <= envelope(a) + envelope(b), never above cost_fs(), and never decreasing. (With h(x) = the least T(y)/y over y <= x,
 * which does not rise: envelope(a + b) = a h(a + b) + b h(a + b) <= a h(a) + b h(b).) What partition_bound() needs.
 */
int64_t cost_envelope_fs(const struct cost *cost, uint64_t bytes);

#endif

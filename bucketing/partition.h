/*
 * partition.h - into which buckets do gradients go, so that the step waits least?
 *
 * Gradients become ready one after another during backward, and each bucket costs one all-reduce. Few large buckets
 * start late; many small ones pay the latency each time. Given when gradients are ready and what an all-reduce of n
 * bytes costs, this finds the partition into consecutive buckets whose last all-reduce ends first.
 *
 * Pure arithmetic in whole femtoseconds: the same inputs give the same buckets on every rank. Times count from the
 * boundary before (any origin that the inputs share does). One channel, which serves buckets in order.
 */
#ifndef DDPRUN_BUCKETING_PARTITION_H
#define DDPRUN_BUCKETING_PARTITION_H

#include "bucketing/cost.h"

#include <stddef.h>
#include <stdint.h>

/* One gradient, or a piece of one, in the order in which they leave. */
struct ready_piece {
    int64_t ready_ns; /* end of its last write, from 0; never decreases along the array */
    uint64_t bytes;   /* size on the wire */
    int type;         /* a bucket holds one type only */
};

enum partition_status {
    PARTITION_OK = 0,
    PARTITION_NOT_ORDERED, /* ready times decrease somewhere, or are negative */
    PARTITION_TOO_LARGE,   /* all of it would take longer than half an hour */
    PARTITION_NO_MEMORY,
};

/* Whether the functions below can work with these pieces; those that return a status ask it themselves. */
enum partition_status partition_check(const struct ready_piece *pieces, size_t count, const struct cost *cost)
    __attribute__((warn_unused_result));

/*
 * Finds the best partition of pieces[0..count) into buckets of consecutive pieces.
 *
 * bucket_ends_p receives the buckets: bucket k holds the pieces from bucket_ends_p[k-1] (0 for k = 0) up to, not
 * including, bucket_ends_p[k]; it needs room for count entries, of which the first *bucket_count_p are set. *end_fs_p
 * is when the last all-reduce ends. Outputs are untouched on failure.
 *
 * Exact, for any cost that never decreases: f(j) = min over i < j of max(f(i), ready(j)) + cost(i..j). In time
 * proportional to count times segments of the cost.
 */
enum partition_status partition_best(const struct ready_piece *pieces, size_t count, const struct cost *cost,
                                     size_t *bucket_ends_p, size_t *bucket_count_p, int64_t *end_fs_p)
    __attribute__((warn_unused_result));

/*
 * The same, but with few buckets: each costs the trainer's thread some time, too. Takes as many pieces into each
 * bucket, from the last one back, as still let everything end by partition_best()'s end plus slack_fs. `margin` is
 * how many thousandths of the time up to then every bucket but the last is to be done before it must, where that is
 * possible: gradients may be late, one day. margin 0 gives the fewest buckets.
 */
enum partition_status partition_merged(const struct ready_piece *pieces, size_t count, const struct cost *cost,
                                       int64_t slack_fs, unsigned margin, size_t *bucket_ends_p, size_t *bucket_count_p,
                                       int64_t *end_fs_p) __attribute__((warn_unused_result));

/* When the last all-reduce of the given buckets ends. */
int64_t partition_end_fs(const struct ready_piece *pieces, const struct cost *cost, const size_t *bucket_ends,
                         size_t bucket_count);

/*
 * The earliest end that any schedule can reach, whole or split, in any order: from each ready time on, all that becomes
 * ready then or later must still pass the channel, at the envelope of the cost.
 */
int64_t partition_bound_fs(const struct ready_piece *pieces, size_t count, const struct cost *cost);

#endif

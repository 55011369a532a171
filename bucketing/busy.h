/*
 * busy.h - how much longer does an all-reduce take beside backward than on an idle device?
 *
 * The cost (cost.h) is measured on an idle device. Beside backward, collectives and kernels share multiprocessors or
 * cores, and its threads wait longer to run, so the buckets' own times are compared with it. Where buckets are of
 * several sizes they give a line, of a fixed cost and a factor; else, or where the fixed cost is little, a factor
 * alone.
 *
 * A bucket's time on one rank, from where its collective can start on the device to its end, contains the wait for
 * ranks that come later. The rank that comes last waits for no rank: so of the same bucket in the same interval the
 * least time over all ranks counts. It is never less than what the collective itself took, and more only by what the
 * ranks need to see each other.
 *
 * The fixed cost is added to that of each all-reduce (cost_raised()). The factor changes no cost. It changes the clock:
 * beside backward, `factor` ns do the work of one ns on an idle device; behind backward each ns does its own. Ready
 * times in ns of such work, which busy_to_work() makes, are partitioned with the cost as measured, which stays
 * subadditive as cost.h has it; and a bucket that is half done when backward ends continues at full speed in the
 * forecast, as on the device.
 *
 * Pure: whole numbers only, the same inputs give the same factor on every rank.
 */
#ifndef DDPRUN_BUCKETING_BUSY_H
#define DDPRUN_BUCKETING_BUSY_H

#include "bucketing/cost.h"

#define BUSY_WORDS(bucket_count) (1 + 2 * (size_t)(bucket_count))

/* Factors are thousandths. Sharing a device never makes a collective faster: less than BUSY_NONE counts as BUSY_NONE.
 */
enum { BUSY_NONE = 1000, BUSY_MOST = 8000 };

enum {
    BUSY_INTERVALS_AT_MOST = 16,
    BUSY_INTERVALS_AT_LEAST = 3, /* in which all ranks have a bucket's time; else the bucket does not count */
};

/* Beside backward an all-reduce of a cost of ns takes factor / 1000 * (ns + fixed_ns). */
struct busy {
    unsigned factor;
    int64_t fixed_ns;
};

/*
 * The line that the times of a plan's buckets give. ranks[r] has interval_count samples of BUSY_WORDS(bucket_count)
 * words each: the number of the interval, from 1 (0: no sample), and of each bucket how many ns of its time passed
 * before the rank's backward was done (0: the bucket does not count) and how many behind that. Samples of one interval
 * are found by its number: ranks need not have sampled the same ones.
 *
 * What passed behind backward was work at full speed; the rest of the bucket's cost is what was done beside backward.
 * Of each bucket the median over intervals counts. The line is that of least squares through three buckets or more, of
 * which one has twice the work of another; it counts if its fixed cost is a tenth of a bucket's mean work. Else the
 * factor is the sum of times over the sum of work, so that large ones count for more. Where less than half of a
 * bucket's work was done beside backward it is left out, and so is a bucket with a factor below an eighth or above 64.
 * `before` is what was found so far; it is returned where no bucket counts, or where the least and the greatest bucket
 * take the same by it within a twentieth, which is noise: plans do not change for that.
 *
 * `cost` must not be empty; interval_count is at most BUSY_INTERVALS_AT_MOST.
 */
struct busy busy_fit(const int64_t *const *ranks, size_t rank_count, size_t interval_count,
                     const uint64_t *bucket_bytes, size_t bucket_count, const struct cost *cost, struct busy before);

/* Turns times up to the end of backward, in ns from 0, into ns of work. Order stays; BUSY_NONE changes nothing. */
void busy_to_work(int64_t *times_ns, size_t count, unsigned factor);

#endif

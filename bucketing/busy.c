/*
 * busy.c - see busy.h.
 */
#include "bucketing/busy.h"

#include <stdlib.h>

enum { REFUSED_BELOW = 8, REFUSED_ABOVE = 64 }; /* an eighth of the cost, 64 times the cost */

static int
compare_ns(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* The bucket's time in the rank's sample of that interval; 0: there is none. */
static int64_t
time_in(const int64_t *samples, size_t interval_count, size_t bucket_count, int64_t interval, size_t bucket)
{
    for (size_t s = 0; s < interval_count; ++s) {
        const int64_t *sample = samples + s * (1 + bucket_count);
        if (sample[0] == interval)
            return sample[1 + bucket];
    }
    return 0;
}

/* The least over ranks; not above 0 unless all have one. */
static int64_t
least_time(const int64_t *const *ranks, size_t rank_count, size_t interval_count, size_t bucket_count, int64_t interval,
           size_t bucket)
{
    int64_t least_ns = INT64_MAX;
    for (size_t r = 0; r < rank_count; ++r) {
        int64_t ns = time_in(ranks[r], interval_count, bucket_count, interval, bucket);
        least_ns = ns < least_ns ? ns : least_ns;
    }
    return least_ns;
}

/* The median over intervals; 0: too few. */
static int64_t
time_of_bucket(const int64_t *const *ranks, size_t rank_count, size_t interval_count, size_t bucket_count,
               size_t bucket)
{
    int64_t times_ns[BUSY_INTERVALS_AT_MOST];
    size_t count = 0;
    for (size_t s = 0; s < interval_count; ++s) {
        int64_t interval = ranks[0][s * (1 + bucket_count)];
        int64_t ns = interval > 0 ? least_time(ranks, rank_count, interval_count, bucket_count, interval, bucket) : 0;
        if (ns > 0)
            times_ns[count++] = ns;
    }
    if (count < BUSY_INTERVALS_AT_LEAST)
        return 0;
    qsort(times_ns, count, sizeof(times_ns[0]), compare_ns);
    return times_ns[(count - 1) / 2];
}

unsigned
busy_factor(const int64_t *const *ranks, size_t rank_count, size_t interval_count, const uint64_t *bucket_bytes,
            size_t bucket_count, const struct cost *cost, unsigned before)
{
    __int128 sum_ns = 0, idle_sum_ns = 0;
    for (size_t k = 0; k < bucket_count; ++k) {
        int64_t ns = time_of_bucket(ranks, rank_count, interval_count, bucket_count, k);
        int64_t idle_ns = cost_fs(cost, bucket_bytes[k]) / COST_FS_PER_NS;
        if (ns == 0 || ns < idle_ns / REFUSED_BELOW || ns / REFUSED_ABOVE > idle_ns)
            continue;
        sum_ns += ns;
        idle_sum_ns += idle_ns;
    }
    if (idle_sum_ns == 0)
        return before;
    __int128 factor = sum_ns * BUSY_NONE / idle_sum_ns;
    factor = factor < BUSY_NONE ? BUSY_NONE : factor > BUSY_MOST ? BUSY_MOST : factor;
    __int128 change = factor > before ? factor - before : before - factor;
    return change * 20 <= before ? before : (unsigned)factor;
}

void
busy_to_work(int64_t *times_ns, size_t count, unsigned factor)
{
    for (size_t i = 0; i < count; ++i)
        times_ns[i] = (int64_t)((__int128)times_ns[i] * BUSY_NONE / factor);
}

/*
 * busy.c - see busy.h.
 */
#include "bucketing/busy.h"

#include <stdbool.h>
#include <stdlib.h>

enum { REFUSED_BELOW = 8, REFUSED_ABOVE = 64 }; /* an eighth of the cost, 64 times the cost */

static const int64_t most_ns = INT64_C(1800) * 1000 * 1000 * 1000; /* half an hour, as in cost.c */

/* What of a bucket was beside backward: so much work took so long. */
struct share {
    int64_t ns, work_ns;
};

static int
compare_shares(const void *a, const void *b)
{
    const struct share *left = a, *right = b;
    __int128 of_left = (__int128)left->ns * right->work_ns, of_right = (__int128)right->ns * left->work_ns;
    return of_left < of_right ? -1 : of_left > of_right;
}

/* The rank's sample of that interval, or NULL. */
static const int64_t *
sample_of(const int64_t *samples, size_t interval_count, size_t words, int64_t interval)
{
    for (size_t s = 0; s < interval_count; ++s) {
        if (samples[s * words] == interval)
            return samples + s * words;
    }
    return NULL;
}

/* By the rank that took least; false unless all ranks have times of the bucket, of which enough was beside backward. */
static bool
share_in(const int64_t *const *ranks, size_t rank_count, size_t interval_count, size_t words, int64_t interval,
         size_t bucket, int64_t idle_ns, struct share *share_p)
{
    int64_t least_ns = INT64_MAX, beside_ns = 0;
    for (size_t r = 0; r < rank_count; ++r) {
        const int64_t *sample = sample_of(ranks[r], interval_count, words, interval);
        const int64_t *times_ns = sample != NULL ? sample + 1 + 2 * bucket : NULL;
        if (times_ns == NULL || times_ns[0] <= 0 || times_ns[1] < 0 || times_ns[0] > most_ns || times_ns[1] > most_ns)
            return false;
        beside_ns = times_ns[0] + times_ns[1] < least_ns ? times_ns[0] : beside_ns;
        least_ns = times_ns[0] + times_ns[1] < least_ns ? times_ns[0] + times_ns[1] : least_ns;
    }
    *share_p = (struct share){beside_ns, idle_ns - (least_ns - beside_ns)};
    return share_p->work_ns > 0 && share_p->work_ns >= idle_ns / 2;
}

/* The median over intervals; false: too few. */
static bool
share_of_bucket(const int64_t *const *ranks, size_t rank_count, size_t interval_count, size_t words, size_t bucket,
                int64_t idle_ns, struct share *share_p)
{
    struct share shares[BUSY_INTERVALS_AT_MOST];
    size_t count = 0;
    for (size_t s = 0; s < interval_count; ++s) {
        int64_t interval = ranks[0][s * words];
        if (interval > 0 &&
            share_in(ranks, rank_count, interval_count, words, interval, bucket, idle_ns, &shares[count]))
            ++count;
    }
    if (count < BUSY_INTERVALS_AT_LEAST)
        return false;
    qsort(shares, count, sizeof(shares[0]), compare_shares);
    *share_p = shares[(count - 1) / 2];
    return true;
}

unsigned
busy_factor(const int64_t *const *ranks, size_t rank_count, size_t interval_count, const uint64_t *bucket_bytes,
            size_t bucket_count, const struct cost *cost, unsigned before)
{
    __int128 sum_ns = 0, sum_work_ns = 0;
    for (size_t k = 0; k < bucket_count; ++k) {
        struct share share;
        int64_t idle_ns = cost_fs(cost, bucket_bytes[k]) / COST_FS_PER_NS;
        if (!share_of_bucket(ranks, rank_count, interval_count, BUSY_WORDS(bucket_count), k, idle_ns, &share) ||
            share.ns < share.work_ns / REFUSED_BELOW || share.ns / REFUSED_ABOVE > share.work_ns)
            continue;
        sum_ns += share.ns;
        sum_work_ns += share.work_ns;
    }
    if (sum_work_ns == 0)
        return before;
    __int128 factor = sum_ns * BUSY_NONE / sum_work_ns;
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

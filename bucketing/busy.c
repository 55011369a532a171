/*
 * busy.c - see busy.h.
 */
#include "bucketing/busy.h"

#include <stdbool.h>
#include <stdlib.h>

enum { REFUSED_BELOW = 8, REFUSED_ABOVE = 64 }; /* an eighth of the cost, 64 times the cost */
enum { FIXED_SHARE = 10 };                      /* less than a tenth of the work is noise */

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

/* Sums over the buckets that count: of x, the work, and y, the time that it took, in ns. */
struct sums {
    __int128 count, x, y, xx, xy;
    int64_t least_x, most_x;
};

static void
add_share(struct sums *sums, const struct share *share)
{
    int64_t x = share->work_ns, y = share->ns;
    sums->least_x = sums->count == 0 || x < sums->least_x ? x : sums->least_x;
    sums->most_x = x > sums->most_x ? x : sums->most_x;
    ++sums->count;
    sums->x += x;
    sums->y += y;
    sums->xx += (__int128)x * x;
    sums->xy += (__int128)x * y;
}

static unsigned
within_bounds(__int128 factor)
{
    return factor < BUSY_NONE ? BUSY_NONE : factor > BUSY_MOST ? BUSY_MOST : (unsigned)factor;
}

static struct busy
line_through(const struct sums *s)
{
    struct busy line = {within_bounds(s->y * BUSY_NONE / s->x), 0};
    if (s->count < 3 || s->most_x / 2 < s->least_x)
        return line;
    /* Both sides of the normal equations are below 2^127: x and y below 2^41 (half an hour), and few buckets. */
    unsigned factor = within_bounds((s->count * s->xy - s->x * s->y) * BUSY_NONE / (s->count * s->xx - s->x * s->x));
    __int128 fixed_ns = (s->y * BUSY_NONE - s->x * factor) / s->count / factor;
    bool is_fixed = factor < BUSY_MOST && fixed_ns * s->count * FIXED_SHARE > s->x;
    return is_fixed ? (struct busy){factor, (int64_t)fixed_ns} : line;
}

/* Whether this work takes the same by both, within a twentieth. */
static bool
are_near(struct busy a, struct busy b, int64_t work_ns)
{
    __int128 by_a = ((__int128)work_ns + a.fixed_ns) * a.factor, by_b = ((__int128)work_ns + b.fixed_ns) * b.factor;
    return (by_a > by_b ? by_a - by_b : by_b - by_a) * 20 <= by_b;
}

struct busy
busy_fit(const int64_t *const *ranks, size_t rank_count, size_t interval_count, const uint64_t *bucket_bytes,
         size_t bucket_count, const struct cost *cost, struct busy before)
{
    struct sums sums = {0};
    for (size_t k = 0; k < bucket_count; ++k) {
        struct share share;
        int64_t idle_ns = cost_fs(cost, bucket_bytes[k]) / COST_FS_PER_NS;
        if (!share_of_bucket(ranks, rank_count, interval_count, BUSY_WORDS(bucket_count), k, idle_ns, &share) ||
            share.ns < share.work_ns / REFUSED_BELOW || share.ns / REFUSED_ABOVE > share.work_ns)
            continue;
        add_share(&sums, &share);
    }
    if (sums.count == 0)
        return before;
    struct busy line = line_through(&sums);
    bool same = are_near(line, before, sums.least_x) && are_near(line, before, sums.most_x);
    return same ? before : line;
}

void
busy_to_work(int64_t *times_ns, size_t count, unsigned factor)
{
    for (size_t i = 0; i < count; ++i)
        times_ns[i] = (int64_t)((__int128)times_ns[i] * BUSY_NONE / factor);
}

/*
 * test_partition.c - partition_best is exact, and never beats the bound; nor does any other schedule.
 *
 * Property tests over random pieces of several types and random costs, straight and kinked: against all 2^(n-1)
 * partitions for few pieces, against the plain quadratic recurrence for many, against random schedules of pieces of
 * gradients in any order for the bound.
 */
#include "bucketing/partition.h"

#include "tests/lib/test.h"

enum { SMALL = 10, LARGE = 400, HUGE = 10000, CASES = 400, PARTS = 4 };

static void
random_cost(unsigned *seed, struct cost *cost)
{
    if (rand_r(seed) % 3 == 0) {
        ck_assert(cost_of_link(1000 * (1 + rand_r(seed) % 200), 100 + rand_r(seed) % 100000, cost));
        return;
    }
    struct cost_sample samples[9];
    size_t count = 2 + (size_t)(rand_r(seed) % 8);
    uint64_t bytes = 0;
    int64_t ns = 1000 + rand_r(seed) % 200000;
    for (size_t i = 0; i < count; ++i) {
        bytes += 1024 + ((uint64_t)1 << (rand_r(seed) % 25));
        ns += rand_r(seed) % 3 == 0 ? rand_r(seed) % 3000000 : rand_r(seed) % 1000; /* jumps and flat stretches */
        samples[i] = (struct cost_sample){bytes, ns};
    }
    ck_assert(cost_fit(samples, count, cost));
}

static void
random_pieces(unsigned *seed, struct ready_piece *pieces, size_t count)
{
    int64_t ready_ns = 0;
    int types = 1 + rand_r(seed) % 3, stretch = 1 + rand_r(seed) % 1000000;
    for (size_t i = 0; i < count; ++i) {
        ready_ns += rand_r(seed) % 5 == 0 ? 0 : rand_r(seed) % stretch;
        pieces[i] = (struct ready_piece){ready_ns, (uint64_t)1 << (rand_r(seed) % 24),
                                         rand_r(seed) % 4 == 0 ? rand_r(seed) % types : 0};
    }
}

/* The end of the partition whose bit i says "cut after piece i"; INT64_MAX if a bucket would mix types. */
static int64_t
end_of_cuts(const struct ready_piece *pieces, size_t count, unsigned cuts, const struct cost *cost)
{
    int64_t end_fs = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
        bytes += pieces[i].bytes;
        if (i + 1 == count || (cuts >> i & 1u)) {
            int64_t ready_fs = pieces[i].ready_ns * COST_FS_PER_NS;
            end_fs = (end_fs > ready_fs ? end_fs : ready_fs) + cost_fs(cost, bytes);
            bytes = 0;
        } else if (pieces[i].type != pieces[i + 1].type) {
            return INT64_MAX;
        }
    }
    return end_fs;
}

/* The recurrence of partition.h as it stands there. */
static int64_t
quadratic_end_fs(const struct ready_piece *pieces, size_t count, const struct cost *cost)
{
    int64_t best[LARGE + 1] = {0};
    for (size_t j = 1; j <= count; ++j) {
        uint64_t bytes = 0;
        best[j] = INT64_MAX;
        for (size_t i = j; i-- > 0 && pieces[i].type == pieces[j - 1].type;) {
            int64_t ready_fs = pieces[j - 1].ready_ns * COST_FS_PER_NS;
            bytes += pieces[i].bytes;
            int64_t end_fs = (best[i] > ready_fs ? best[i] : ready_fs) + cost_fs(cost, bytes);
            best[j] = end_fs < best[j] ? end_fs : best[j];
        }
    }
    return best[count];
}

static void
check_ends(const struct ready_piece *pieces, size_t count, const size_t *ends, size_t bucket_count)
{
    size_t begin = 0;
    for (size_t k = 0; k < bucket_count; begin = ends[k++]) {
        ck_assert_uint_gt(ends[k], begin);
        for (size_t i = begin + 1; i < ends[k]; ++i)
            ck_assert_int_eq(pieces[i].type, pieces[begin].type);
    }
    ck_assert_uint_eq(begin, count);
}

static struct cost cost;

TEST_GROUP(properties, .timeout_s = 120);

SEED_TEST(best_equals_exhaustive_search, 0, CASES)
{
    struct ready_piece pieces[SMALL];
    random_pieces(&seed, pieces, SMALL);
    random_cost(&seed, &cost);

    int64_t least_fs = INT64_MAX, end_fs;
    for (unsigned cuts = 0; cuts < 1u << (SMALL - 1); ++cuts) {
        int64_t fs = end_of_cuts(pieces, SMALL, cuts, &cost);
        least_fs = fs < least_fs ? fs : least_fs;
    }
    size_t ends[SMALL], bucket_count;
    ck_assert_int_eq(partition_best(pieces, SMALL, &cost, ends, &bucket_count, &end_fs), PARTITION_OK);
    ck_assert_int_eq(end_fs, least_fs);
    check_ends(pieces, SMALL, ends, bucket_count);
}

SEED_TEST(best_equals_the_quadratic_recurrence, 10000, CASES)
{
    struct ready_piece pieces[LARGE];
    random_pieces(&seed, pieces, LARGE);
    random_cost(&seed, &cost);

    size_t ends[LARGE], bucket_count;
    int64_t end_fs;
    ck_assert_int_eq(partition_best(pieces, LARGE, &cost, ends, &bucket_count, &end_fs), PARTITION_OK);
    ck_assert_int_eq(end_fs, quadratic_end_fs(pieces, LARGE, &cost));
    check_ends(pieces, LARGE, ends, bucket_count);
    ck_assert_int_eq(partition_end_fs(pieces, &cost, ends, bucket_count), end_fs);
    ck_assert_int_ge(end_fs, partition_bound_fs(pieces, LARGE, &cost));
}

/* A random schedule: pieces of pieces, some of them in one all-reduce, in an order that need not be of readiness. */
static int64_t
random_schedule_fs(unsigned *seed, const struct ready_piece *pieces, size_t count, const struct cost *cost)
{
    struct ready_piece parts[PARTS * SMALL];
    size_t part_count = 0;
    for (size_t i = 0; i < count; ++i) {
        uint64_t left = pieces[i].bytes;
        for (size_t part = rand_r(seed) % PARTS; part < PARTS && left > 0; ++part) {
            uint64_t bytes = part + 1 == PARTS ? left : (uint64_t)rand_r(seed) % left + 1;
            parts[part_count++] = (struct ready_piece){pieces[i].ready_ns, bytes, 0};
            left -= bytes;
        }
    }
    for (size_t i = 0; i + 1 < part_count; ++i) {
        size_t other = rand_r(seed) % 3 == 0 ? i + 1 + (size_t)rand_r(seed) % (part_count - i - 1) : i;
        struct ready_piece swapped = parts[i];
        parts[i] = parts[other];
        parts[other] = swapped;
    }
    size_t ends[PARTS * SMALL], bucket_count = 0;
    for (size_t i = 1; i <= part_count; ++i) {
        if (i == part_count || rand_r(seed) % 2 == 0)
            ends[bucket_count++] = i;
    }
    return partition_end_fs(parts, cost, ends, bucket_count);
}

SEED_TEST(no_schedule_beats_the_bound, 20000, CASES)
{
    struct ready_piece pieces[SMALL];
    random_pieces(&seed, pieces, SMALL);
    random_cost(&seed, &cost);
    int64_t bound_fs = partition_bound_fs(pieces, SMALL, &cost);
    for (int s = 0; s < 50; ++s)
        ck_assert_int_ge(random_schedule_fs(&seed, pieces, SMALL, &cost) + PARTS * SMALL, bound_fs); /* rounding */
}

SEED_TEST(with_latency_and_bandwidth_cutting_gradients_gains_nothing, 30000, CASES)
{
    struct ready_piece whole[SMALL], cut[PARTS * SMALL];
    random_pieces(&seed, whole, SMALL);
    ck_assert(cost_of_link(1000 * (1 + rand_r(&seed) % 200), 100 + rand_r(&seed) % 100000, &cost));
    for (size_t i = 0; i < SMALL; ++i) {
        for (size_t part = 0; part < PARTS; ++part) {
            cut[PARTS * i + part] = whole[i];
            cut[PARTS * i + part].bytes = whole[i].bytes * (part + 1) / PARTS - whole[i].bytes * part / PARTS;
        }
    }
    size_t ends[PARTS * SMALL], bucket_count;
    int64_t whole_fs, cut_fs;
    ck_assert_int_eq(partition_best(whole, SMALL, &cost, ends, &bucket_count, &whole_fs), PARTITION_OK);
    ck_assert_int_eq(partition_best(cut, PARTS * SMALL, &cost, ends, &bucket_count, &cut_fs), PARTITION_OK);
    ck_assert_int_eq(cut_fs, whole_fs);
}

SEED_TEST(merged_ends_in_time_with_fewer_buckets, 40000, CASES)
{
    struct ready_piece pieces[LARGE];
    random_pieces(&seed, pieces, LARGE);
    random_cost(&seed, &cost);
    size_t ends[LARGE], best_count, bucket_count, cautious_count;
    int64_t best_fs, end_fs, slack_fs = rand_r(&seed) % 2 == 0 ? 0 : (int64_t)(rand_r(&seed) % 1000) * COST_FS_PER_NS;
    ck_assert_int_eq(partition_best(pieces, LARGE, &cost, ends, &best_count, &best_fs), PARTITION_OK);
    ck_assert_int_eq(partition_merged(pieces, LARGE, &cost, slack_fs, 0, ends, &bucket_count, &end_fs), PARTITION_OK);
    check_ends(pieces, LARGE, ends, bucket_count);
    ck_assert_int_le(end_fs, best_fs + slack_fs);
    ck_assert_int_eq(end_fs, partition_end_fs(pieces, &cost, ends, bucket_count));
    ck_assert_uint_le(bucket_count, best_count);
    ck_assert_int_eq(partition_merged(pieces, LARGE, &cost, slack_fs, 100, ends, &cautious_count, &end_fs),
                     PARTITION_OK);
    check_ends(pieces, LARGE, ends, cautious_count);
    ck_assert_int_le(end_fs, best_fs + slack_fs);
}

TEST(ten_thousand_pieces_are_no_matter)
{
    /* Twice as much communication as backward: nearly every piece finds the channel busy, the slow case of the plain
     * recurrence. The quadratic one would take some hundred million steps; the test would run into its time limit. */
    struct ready_piece *pieces = malloc(HUGE * sizeof(*pieces));
    size_t *ends = malloc(HUGE * sizeof(*ends)), bucket_count;
    struct cost_sample samples[] = {{4096, 20000}, {65536, 25000}, {1 << 20, 80000}, {16 << 20, 1000000}};
    int64_t end_fs;
    ck_assert(pieces != NULL && ends != NULL && cost_fit(samples, 4, &cost));
    for (int repeat = 0; repeat < 20; ++repeat) {
        for (size_t i = 0; i < HUGE; ++i)
            pieces[i] = (struct ready_piece){(int64_t)i * 3000, 100000 + (uint64_t)(i * 7919 % 1000), 0};
        ck_assert_int_eq(partition_best(pieces, HUGE, &cost, ends, &bucket_count, &end_fs), PARTITION_OK);
        ck_assert_int_ge(end_fs, partition_bound_fs(pieces, HUGE, &cost));
    }
    free(pieces);
    free(ends);
}

TEST(what_cannot_be_is_refused)
{
    struct ready_piece falling[] = {{2, 8, 0}, {1, 8, 0}}, negative[] = {{-1, 8, 0}}, large[] = {{1, UINT64_MAX, 0}},
                       larger[] = {{1, UINT64_MAX, 0}, {1, UINT64_MAX, 0}};
    size_t ends[2] = {7, 7}, bucket_count = 7;
    int64_t end_fs = 7;
    ck_assert(cost_of_link(1, 1.0, &cost));
    ck_assert_int_eq(partition_best(falling, 2, &cost, ends, &bucket_count, &end_fs), PARTITION_NOT_ORDERED);
    ck_assert_int_eq(partition_best(negative, 1, &cost, ends, &bucket_count, &end_fs), PARTITION_NOT_ORDERED);
    ck_assert_int_eq(partition_best(large, 1, &cost, ends, &bucket_count, &end_fs), PARTITION_TOO_LARGE);
    ck_assert_int_eq(partition_best(larger, 2, &cost, ends, &bucket_count, &end_fs), PARTITION_TOO_LARGE);
    ck_assert_int_eq(partition_merged(falling, 2, &cost, 0, 0, ends, &bucket_count, &end_fs), PARTITION_NOT_ORDERED);
    ck_assert_uint_eq(ends[0], 7);
    ck_assert_uint_eq(bucket_count, 7);
    ck_assert_int_eq(end_fs, 7);
    ck_assert_int_eq(partition_best(falling, 0, &cost, ends, &bucket_count, &end_fs), PARTITION_OK);
    ck_assert_uint_eq(bucket_count, 0);
}

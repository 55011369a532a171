/*
 * test_cost.c - the cost of an all-reduce never decreases and passes through its samples, but for those above a later
 * one; its envelope is subadditive, never above it and never decreasing; samples that cannot be are refused.
 */
#include "bucketing/cost.h"

#include "tests/lib/test.h"

enum { CASES = 300, SAMPLES = 10, SIZES = 200 };

static size_t
random_samples(unsigned *seed, struct cost_sample *samples)
{
    size_t count = 1 + (size_t)(rand_r(seed) % SAMPLES);
    uint64_t bytes = 0;
    int64_t ns = 1 + rand_r(seed) % 1000000;
    for (size_t i = 0; i < count; ++i) {
        bytes += (uint64_t)1 << (rand_r(seed) % 26);
        ns += rand_r(seed) % 4 == 0 ? -(rand_r(seed) % (int)(ns < 1000000 ? ns : 1000000)) : rand_r(seed) % 3000000;
        samples[i] = (struct cost_sample){bytes, ns};
    }
    return count;
}

SEED_TEST(costs_pass_through_their_samples_and_never_decrease, 0, CASES)
{
    struct cost_sample samples[SAMPLES];
    struct cost cost;
    size_t count = random_samples(&seed, samples);
    ck_assert(cost_fit(samples, count, &cost));

    int64_t least_ns = INT64_MAX;
    for (size_t i = count; i-- > 0;) {
        least_ns = samples[i].ns < least_ns ? samples[i].ns : least_ns;
        ck_assert_int_eq(cost_fs(&cost, samples[i].bytes), least_ns * COST_FS_PER_NS);
    }
    ck_assert_int_eq(cost_fs(&cost, 0), least_ns * COST_FS_PER_NS);

    uint64_t bytes = 0;
    int64_t last_fs = 0, last_envelope = 0;
    for (int i = 0; i < SIZES; ++i, bytes += (uint64_t)rand_r(&seed) % (2 * samples[count - 1].bytes / SIZES + 2)) {
        int64_t fs = cost_fs(&cost, bytes), envelope = cost_envelope_fs(&cost, bytes);
        ck_assert_int_ge(fs, last_fs);
        ck_assert_int_ge(envelope, last_envelope);
        ck_assert_int_le(envelope, fs);
        last_fs = fs;
        last_envelope = envelope;
    }
    ck_assert_int_gt(cost_fs(&cost, bytes + (UINT64_C(1) << 40)), last_fs); /* more always costs more, in the end */
}

SEED_TEST(envelopes_are_subadditive, 4000, CASES)
{
    struct cost_sample samples[SAMPLES];
    struct cost cost;
    size_t count = random_samples(&seed, samples);
    ck_assert(cost_fit(samples, count, &cost));
    for (int i = 0; i < SIZES; ++i) {
        uint64_t a = (uint64_t)rand_r(&seed) % (2 * samples[count - 1].bytes) + 1,
                 b = rand_r(&seed) % 2 == 0 ? a : (uint64_t)rand_r(&seed) % (2 * samples[count - 1].bytes) + 1;
        /* Each of the three is rounded down by less than one. */
        ck_assert_int_le(cost_envelope_fs(&cost, a + b), cost_envelope_fs(&cost, a) + cost_envelope_fs(&cost, b) + 2);
    }
}

TEST(a_link_is_a_latency_and_a_bandwidth)
{
    struct cost cost;
    ck_assert(cost_of_link(20000, 10000.0, &cost)); /* 20 us, 10 GB/s: 0.1 ns a byte */
    ck_assert_int_eq(cost_fs(&cost, 0), INT64_C(20000) * COST_FS_PER_NS);
    ck_assert_int_eq(cost_fs(&cost, 1000000), INT64_C(120000) * COST_FS_PER_NS);
    ck_assert_int_eq(cost_envelope_fs(&cost, 1000000), cost_fs(&cost, 1000000)); /* it is subadditive itself */
    ck_assert_int_eq(cost_fs(&cost, UINT64_MAX), COST_MOST_FS);
    ck_assert(!cost_of_link(20000, 0.0, &cost));
    ck_assert(!cost_of_link(-1, 1.0, &cost));
}

TEST(samples_that_cannot_be_are_refused)
{
    struct cost_sample same[] = {{8, 5}, {8, 6}}, falling[] = {{8, 5}, {4, 6}}, nothing[] = {{0, 5}}, none[] = {{8, 0}},
                       endless[] = {{8, INT64_MAX}}, many[COST_SEGMENTS_AT_MOST];
    struct cost cost = {.count = 77};
    for (size_t i = 0; i < COST_SEGMENTS_AT_MOST; ++i)
        many[i] = (struct cost_sample){i + 1, 5};
    ck_assert(!cost_fit(same, 2, &cost));
    ck_assert(!cost_fit(falling, 2, &cost));
    ck_assert(!cost_fit(nothing, 1, &cost));
    ck_assert(!cost_fit(none, 1, &cost));
    ck_assert(!cost_fit(endless, 1, &cost));
    ck_assert(!cost_fit(many, COST_SEGMENTS_AT_MOST, &cost));
    ck_assert(!cost_fit(many, 0, &cost));
    ck_assert_uint_eq(cost.count, 77);
}

/*
 * test_sequence.c - a rhythm of boundaries is predicted, without a fault once it fills what is kept, whatever came
 * before; without one nothing is claimed that did not come before; and sequences that differ have other hashes.
 */
#include "bucketing/sequence.h"

#include "tests/lib/test.h"

enum { CASES = 300, PERIOD_AT_MOST = SEQUENCE_KEPT / 2, GROUPS = 3, LENGTH = 3 * SEQUENCE_KEPT };

static int
random_group(unsigned *seed)
{
    return (int)(rand_r(seed) / 7 % GROUPS);
}

SEED_TEST(a_rhythm_is_predicted, 1, CASES)
{
    struct sequence sequence = {0};
    int cycle[PERIOD_AT_MOST], period = 1 + rand_r(&seed) % PERIOD_AT_MOST, before = rand_r(&seed) % 100;
    for (int i = 0; i < period; ++i)
        cycle[i] = random_group(&seed);
    for (int i = 0; i < before; ++i)
        sequence_add(&sequence, random_group(&seed));

    for (int i = 0; i < LENGTH; ++i) {
        if (i >= SEQUENCE_KEPT)
            ck_assert_int_eq(sequence_next(&sequence), cycle[i % period]);
        sequence_add(&sequence, cycle[i % period]);
    }
}

TEST(turns_are_predicted_after_two_of_each)
{
    struct sequence sequence = {0};
    for (int i = 0; i < 4; ++i) {
        ck_assert_int_eq(sequence_next(&sequence), SEQUENCE_NONE);
        sequence_add(&sequence, i % 2);
    }
    for (int i = 4; i < 200; ++i) {
        ck_assert_int_eq(sequence_next(&sequence), i % 2);
        sequence_add(&sequence, i % 2);
    }
}

SEED_TEST(only_groups_that_were_there_are_predicted, 7000, CASES)
{
    struct sequence sequence = {0};
    bool was[GROUPS] = {false};
    for (int i = 0; i < 200; ++i) {
        int next = sequence_next(&sequence), group = random_group(&seed);
        ck_assert(next == SEQUENCE_NONE || was[next]);
        sequence_add(&sequence, group);
        was[group] = true;
    }
}

SEED_TEST(other_sequences_have_other_hashes, 9000, CASES)
{
    struct sequence a = {0}, b = {0};
    int length = 1 + rand_r(&seed) % 100, differs = rand_r(&seed) % length;
    for (int i = 0; i < length; ++i) {
        int group = random_group(&seed);
        sequence_add(&a, group);
        sequence_add(&b, i == differs ? (group + 1) % GROUPS : group);
        ck_assert_int_eq(a.hash != b.hash, i >= differs);
    }
}

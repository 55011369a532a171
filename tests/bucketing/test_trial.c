/*
 * test_trial.c - what overlap costs and gains is found through drift, outliers and ranks of different speed; pairs that
 * a rank does not know do not count, and too few are no result; steps change their way only for a clear gain, and
 * trials cost little.
 */
#include "bucketing/trial.h"

#include "tests/test.h"

#include <check.h>

enum { RANKS = 3, MS = 1000000 };

struct scene {
    struct trial_step steps[RANKS][TRIAL_STEPS];
};

/* All ranks alike: own work with and without overlap, and what is exposed then. */
static void
set_scene(struct scene *scene, int64_t own, int64_t exposed, int64_t own_apart, int64_t exposed_apart)
{
    for (size_t r = 0; r < RANKS; ++r) {
        for (size_t i = 0; i < TRIAL_STEPS; ++i)
            scene->steps[r][i] = trial_overlaps(i) ? (struct trial_step){own * MS, exposed * MS}
                                                   : (struct trial_step){own_apart * MS, exposed_apart * MS};
    }
}

static bool
judge(const struct scene *scene, struct trial_result *result)
{
    const struct trial_step *ranks[RANKS];
    for (size_t r = 0; r < RANKS; ++r)
        ranks[r] = scene->steps[r];
    return trial_judge(ranks, RANKS, result);
}

TEST(pairs_have_one_of_each_and_favour_neither)
{
    int first = 0;
    for (size_t i = 0; i < TRIAL_STEPS; i += 2) {
        ck_assert_int_ne(trial_overlaps(i), trial_overlaps(i + 1));
        first += trial_overlaps(i);
    }
    ck_assert_int_eq(first, TRIAL_PAIRS / 2);
}

TEST(slowed_and_gained_are_differences_within_pairs)
{
    struct scene scene;
    struct trial_result result;
    set_scene(&scene, 48, 1, 40, 20);
    ck_assert(judge(&scene, &result));
    ck_assert_uint_eq(result.pairs, TRIAL_PAIRS);
    ck_assert_int_eq(result.slowed_ns, 8 * MS);
    ck_assert_int_eq(trial_slowed(&result), 8 * MS);
    ck_assert_int_eq(result.overlapped_ns, 49 * MS);
    ck_assert_int_eq(result.apart_ns, 60 * MS);
    ck_assert_int_eq(result.gained_ns, 11 * MS);
    ck_assert_uint_eq(result.gains, TRIAL_PAIRS);
    ck_assert_uint_eq(result.losses, 0);
}

TEST(drift_and_outliers_do_not_move_it)
{
    struct scene scene;
    struct trial_result result;
    set_scene(&scene, 48, 1, 40, 20);
    for (size_t r = 0; r < RANKS; ++r) {
        for (size_t i = 0; i < TRIAL_STEPS; ++i)
            scene.steps[r][i].own_ns += (int64_t)i * MS;
    }
    scene.steps[1][4].own_ns += 500 * MS;
    scene.steps[0][9].own_ns += 700 * MS;
    ck_assert(judge(&scene, &result));
    ck_assert_int_ge(result.slowed_ns, 7 * MS);
    ck_assert_int_le(result.slowed_ns, 9 * MS);
}

TEST(where_pairs_disagree_nothing_is_claimed)
{
    struct scene scene;
    struct trial_result result;
    set_scene(&scene, 48, 1, 40, 20);
    for (size_t r = 0; r < RANKS; ++r) {
        scene.steps[r][1].own_ns += 50 * MS; /* control steps */
        scene.steps[r][5].own_ns += 50 * MS;
    }
    ck_assert(judge(&scene, &result));
    ck_assert_uint_eq(result.slower, TRIAL_PAIRS - 2);
    ck_assert_int_eq(result.slowed_ns, 8 * MS);
    ck_assert_int_eq(trial_slowed(&result), 0);
    set_scene(&scene, 38, 1, 40, 20);
    ck_assert(judge(&scene, &result));
    ck_assert_int_eq(trial_slowed(&result), 0);
}

/* A slow rank sets the pace, and the others wait for it, which is not exposed. */
TEST(the_rank_with_the_most_work_and_the_least_wait_counts)
{
    struct scene scene;
    struct trial_result result;
    set_scene(&scene, 48, 1, 40, 20);
    for (size_t i = 0; i < TRIAL_STEPS; ++i) {
        scene.steps[0][i].own_ns -= 30 * MS;
        scene.steps[0][i].wait_ns += 30 * MS;
    }
    ck_assert(judge(&scene, &result));
    ck_assert_int_eq(result.slowed_ns, 8 * MS);
    ck_assert_int_eq(result.overlapped_ns, 49 * MS);
}

TEST(pairs_that_a_rank_does_not_know_do_not_count)
{
    struct scene scene;
    struct trial_result result;
    set_scene(&scene, 48, 1, 40, 20);
    scene.steps[0][0] = scene.steps[2][1] = scene.steps[1][6] = (struct trial_step){0, 0};
    ck_assert(judge(&scene, &result));
    ck_assert_uint_eq(result.pairs, TRIAL_PAIRS - 2);
    ck_assert_int_eq(result.slowed_ns, 8 * MS);
    scene.steps[1][14].own_ns = INT64_MAX; /* no time at all */
    ck_assert(!judge(&scene, &result));
    ck_assert(!trial_judge(NULL, 0, &result));
}

TEST(steps_change_their_way_for_a_clear_gain_only)
{
    struct scene scene;
    struct trial_result result;
    set_scene(&scene, 70, 0, 40, 20); /* 60 ms without overlap, 70 with it */
    ck_assert(judge(&scene, &result));
    ck_assert(!trial_prefers_overlap(&result, true));
    ck_assert(!trial_prefers_overlap(&result, false));
    scene.steps[1][4].own_ns -= 40 * MS; /* less on one rank alone changes nothing */
    ck_assert(judge(&scene, &result));
    ck_assert(!trial_prefers_overlap(&result, true));
    for (size_t r = 0; r < RANKS; ++r) { /* two of eight pairs say otherwise */
        for (size_t i = 0; i < TRIAL_STEPS; ++i)
            scene.steps[r][i].own_ns -= (i == 0 || i == 7) && trial_overlaps(i) ? 40 * MS : 0;
    }
    ck_assert(judge(&scene, &result));
    ck_assert_int_lt(result.gained_ns, -5 * MS);
    ck_assert(trial_prefers_overlap(&result, true));

    set_scene(&scene, 61, 0, 40, 20); /* a loss of less than a fiftieth */
    ck_assert(judge(&scene, &result));
    ck_assert(trial_prefers_overlap(&result, true));
    ck_assert(!trial_prefers_overlap(&result, false));
    set_scene(&scene, 48, 1, 40, 20);
    ck_assert(judge(&scene, &result));
    ck_assert(trial_prefers_overlap(&result, true));
    ck_assert(trial_prefers_overlap(&result, false));
}

/* 8 steps of a trial go the other way. */
TEST(a_trial_costs_at_most_half_a_percent)
{
    struct scene scene;
    struct trial_result result;
    set_scene(&scene, 50, 0, 40, 50); /* 40 ms more */
    ck_assert(judge(&scene, &result));
    ck_assert_uint_ge(trial_pause(&result, true) * 50 * 5, 8 * 40 * 1000);
    ck_assert_uint_le(trial_pause(&result, true), 1400);
    ck_assert_uint_eq(trial_pause(&result, false), 1024); /* steps of the trial were shorter */
    set_scene(&scene, 400, 0, 40, 0);                     /* 360 ms more */
    ck_assert(judge(&scene, &result));
    ck_assert_uint_ge(trial_pause(&result, false) * 40 * 5, UINT64_C(8) * 360 * 1000);
}

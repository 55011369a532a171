/*
 * test_trial.c - rounds favour no way; what another way gains, and what overlap costs, is found through drift, outliers
 * and ranks of different speed; rounds that a rank does not know do not count, and too few are no result; a way is
 * preferred for a clear gain only, and trials cost little.
 */
#include "bucketing/trial.h"

#include "tests/lib/test.h"

enum { RANKS = 3, MS = 1000000 };

static const struct trial_shape pairs = {2, TRIAL_ROUNDS}, all = {TRIAL_WAYS_AT_MOST, TRIAL_ROUNDS};

struct scene {
    struct trial_step steps[RANKS][TRIAL_STEPS_AT_MOST];
};

/* All ranks alike: own work of way 0 and of the others, and what is exposed then. */
static void
set_scene(struct scene *scene, const struct trial_shape *shape, int64_t own, int64_t exposed, int64_t own_other,
          int64_t exposed_other)
{
    for (size_t r = 0; r < RANKS; ++r) {
        for (size_t i = 0; i < shape->ways * shape->rounds; ++i)
            scene->steps[r][i] = trial_way(shape, i) == 0 ? (struct trial_step){own * MS, exposed * MS}
                                                          : (struct trial_step){own_other * MS, exposed_other * MS};
    }
}

static bool
compare(const struct scene *scene, const struct trial_shape *shape, size_t way, struct trial_result *result)
{
    const struct trial_step *ranks[RANKS];
    for (size_t r = 0; r < RANKS; ++r)
        ranks[r] = scene->steps[r];
    return trial_compare(ranks, RANKS, shape, way, result);
}

TEST(each_round_has_each_way_and_favours_none)
{
    int places[TRIAL_WAYS_AT_MOST] = {0};
    for (size_t round = 0; round < all.rounds; ++round) {
        unsigned seen = 0;
        for (size_t at = 0; at < all.ways; ++at) {
            size_t way = trial_way(&all, round * all.ways + at);
            ck_assert_uint_lt(way, all.ways);
            seen |= 1u << way;
            places[way] += (int)at;
        }
        ck_assert_uint_eq(seen, (1u << all.ways) - 1);
    }
    for (size_t way = 1; way < all.ways; ++way)
        ck_assert_int_eq(places[way], places[0]);
}

static struct scene scene;
static struct trial_result result;

/* Ways are alike, but each so-manieth step, from any on, takes half as long again, or by a tenth: printing, a
 * checkpoint, an evaluation. */
TEST(work_of_each_second_to_tenth_step_favours_no_way)
{
    static const struct trial_shape shapes[] = {
        {2, TRIAL_ROUNDS}, {2, TRIAL_ROUNDS_CONFIRMING}, {3, TRIAL_ROUNDS}, {TRIAL_WAYS_AT_MOST, TRIAL_ROUNDS}};
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); ++s) {
        const struct trial_shape *shape = &shapes[s];
        for (size_t each = 2; each <= 10; ++each) {
            for (size_t from = 0; from < each; ++from) {
                for (int64_t more = 2; more <= 10; more += 8) {
                    set_scene(&scene, shape, 20, 1, 20, 1);
                    for (size_t i = from; i < shape->ways * shape->rounds; i += each) {
                        for (size_t r = 0; r < RANKS; ++r)
                            scene.steps[r][i].own_ns += more * MS;
                    }
                    for (size_t way = 1; way < shape->ways; ++way) {
                        ck_assert(compare(&scene, shape, way, &result));
                        ck_assert_msg(!trial_prefers(&result) && trial_slowed(&result, true) == 0 &&
                                          trial_slowed(&result, false) == 0,
                                      "%zu ways, %zu rounds, each %zu from %zu, way %zu", shape->ways, shape->rounds,
                                      each, from, way);
                    }
                }
            }
        }
    }
}

TEST(what_a_way_gains_and_costs_are_differences_within_rounds)
{
    set_scene(&scene, &pairs, 48, 1, 40, 20); /* overlap, and none */
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert_uint_eq(result.rounds, TRIAL_ROUNDS);
    ck_assert_int_eq(result.work_ns, -8 * MS);
    ck_assert_int_eq(trial_slowed(&result, true), 8 * MS);
    ck_assert_int_eq(trial_slowed(&result, false), 0);
    ck_assert_int_eq(result.present_ns, 49 * MS);
    ck_assert_int_eq(result.other_ns, 60 * MS);
    ck_assert_int_eq(result.other_wait_ns, 20 * MS);
    ck_assert_int_eq(result.gained_ns, -11 * MS);
    ck_assert_uint_eq(result.gains, 0);
    set_scene(&scene, &pairs, 40, 20, 48, 1); /* none, and overlap */
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert_int_eq(trial_slowed(&result, false), 8 * MS);
    ck_assert_int_eq(result.gained_ns, 11 * MS);
    ck_assert_uint_eq(result.gains, TRIAL_ROUNDS);
}

TEST(each_way_has_its_own_result)
{
    for (size_t r = 0; r < RANKS; ++r) {
        for (size_t i = 0; i < TRIAL_STEPS_AT_MOST; ++i)
            scene.steps[r][i] = (struct trial_step){(50 - 3 * (int64_t)trial_way(&all, i)) * MS, 5 * MS};
    }
    for (size_t way = 1; way < all.ways; ++way) {
        ck_assert(compare(&scene, &all, way, &result));
        ck_assert_int_eq(result.gained_ns, 3 * (int64_t)way * MS);
        ck_assert(trial_prefers(&result));
    }
}

TEST(drift_and_outliers_do_not_move_it)
{
    set_scene(&scene, &pairs, 48, 1, 40, 20);
    for (size_t r = 0; r < RANKS; ++r) {
        for (size_t i = 0; i < 2 * TRIAL_ROUNDS; ++i)
            scene.steps[r][i].own_ns += (int64_t)i * MS;
    }
    scene.steps[1][4].own_ns += 500 * MS;
    scene.steps[0][9].own_ns += 700 * MS;
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert_int_le(result.work_ns, -7 * MS);
    ck_assert_int_ge(result.work_ns, -9 * MS);
}

TEST(where_rounds_disagree_nothing_is_claimed)
{
    set_scene(&scene, &pairs, 48, 1, 40, 20);
    for (size_t r = 0; r < RANKS; ++r) {
        scene.steps[r][1].own_ns += 50 * MS; /* control steps */
        scene.steps[r][5].own_ns += 50 * MS;
    }
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert_uint_eq(result.less, TRIAL_ROUNDS - 2);
    ck_assert_int_eq(result.work_ns, -8 * MS);
    ck_assert_int_eq(trial_slowed(&result, true), 0);
    set_scene(&scene, &pairs, 38, 1, 40, 20);
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert_int_eq(trial_slowed(&result, true), 0);
}

/* A slow rank sets the pace, and the others wait for it, which is not exposed. */
TEST(the_rank_with_the_most_work_and_the_least_wait_counts)
{
    set_scene(&scene, &pairs, 48, 1, 40, 20);
    for (size_t i = 0; i < 2 * TRIAL_ROUNDS; ++i) {
        scene.steps[0][i].own_ns -= 30 * MS;
        scene.steps[0][i].wait_ns += 30 * MS;
    }
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert_int_eq(trial_slowed(&result, true), 8 * MS);
    ck_assert_int_eq(result.present_ns, 49 * MS);
}

TEST(rounds_that_a_rank_does_not_know_do_not_count)
{
    set_scene(&scene, &pairs, 48, 1, 40, 20);
    scene.steps[0][0] = scene.steps[2][1] = scene.steps[1][6] = (struct trial_step){0, 0};
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert_uint_eq(result.rounds, TRIAL_ROUNDS - 2);
    ck_assert_int_eq(result.work_ns, -8 * MS);
    scene.steps[1][14].own_ns = INT64_MAX; /* no time at all */
    ck_assert(!compare(&scene, &pairs, 1, &result));
    ck_assert_uint_eq(result.rounds, 0);
    ck_assert(!trial_compare(NULL, 0, &pairs, 1, &result));
}

TEST(a_way_is_preferred_for_a_clear_gain_only)
{
    set_scene(&scene, &pairs, 70, 0, 40, 20); /* 70 ms, and 60 */
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert(trial_prefers(&result));
    scene.steps[1][4].own_ns -= 40 * MS; /* less on one rank alone changes nothing */
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert(trial_prefers(&result));
    for (size_t r = 0; r < RANKS; ++r) { /* three of eight rounds say otherwise */
        for (size_t i = 0; i < 6; ++i)
            scene.steps[r][i].own_ns -= trial_way(&pairs, i) == 0 ? 40 * MS : 0;
    }
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert_int_gt(result.gained_ns, 5 * MS);
    ck_assert(!trial_prefers(&result));

    set_scene(&scene, &pairs, 1005, 0, 980, 20); /* a gain of less than a hundredth */
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert(!trial_prefers(&result));
    set_scene(&scene, &pairs, 60, 0, 50, 20);
    ck_assert(compare(&scene, &pairs, 1, &result));
    ck_assert(!trial_prefers(&result));
}

TEST(trials_are_half_a_percent_of_the_steps_and_of_the_time)
{
    ck_assert_uint_eq(trial_pause(8, 0, 50 * MS), 1600);
    ck_assert_uint_eq(trial_pause(8, -3 * MS, 50 * MS), 1600); /* steps of the trial were shorter */
    ck_assert_uint_eq(trial_pause(8, 0, 0), 1600);
    uint64_t pause = trial_pause(8, INT64_C(8) * 360 * MS, 40 * MS);
    ck_assert_uint_ge(pause * 40 * 5, UINT64_C(8) * 360 * 1000);
    ck_assert_uint_le(pause, 14500);
    ck_assert_uint_le(trial_pause(8, INT64_MAX, 1), 1 << 20);
}

/*
 * test_busy.c - what an all-reduce takes beside backward is found through noise, late ranks and outliers, from one size
 * or several; a fixed cost is distinguished from a factor; samples are matched by interval; times that cannot be are
 * refused; it stays within bounds and does not follow noise. In work instead of time, plans and forecasts are those of
 * an idle device.
 */
#include "bucketing/busy.h"

#include "bucketing/measured.h"

#include <check.h>
#include <stdlib.h>

enum { CASES = 30, RANKS = 4, INTERVALS = 5, BUCKETS = 3, WORDS = BUSY_WORDS(BUCKETS) };

struct scene {
    struct cost cost;
    uint64_t bytes[BUCKETS];
    int64_t times[RANKS][INTERVALS][WORDS];
};

/* Every bucket takes `thousandths` of its cost on every rank. */
static void
set_scene(struct scene *scene, int64_t thousandths)
{
    const struct cost_sample samples[] = {{4096, 20000}, {1 << 20, 120000}, {64 << 20, 6000000}};
    ck_assert(cost_fit(samples, 3, &scene->cost));
    for (size_t k = 0; k < BUCKETS; ++k)
        scene->bytes[k] = (uint64_t)(k + 1) << 20;
    for (size_t r = 0; r < RANKS; ++r) {
        for (size_t s = 0; s < INTERVALS; ++s) {
            scene->times[r][s][0] = (int64_t)(4 + 2 * s);
            for (size_t k = 0; k < BUCKETS; ++k) {
                scene->times[r][s][1 + 2 * k] =
                    cost_fs(&scene->cost, scene->bytes[k]) / COST_FS_PER_NS * thousandths / 1000;
                scene->times[r][s][2 + 2 * k] = 0;
            }
        }
    }
}

static struct busy
fit_line(const struct scene *scene, size_t buckets, struct busy before)
{
    int64_t packed[RANKS][INTERVALS * WORDS];
    const int64_t *ranks[RANKS];
    for (size_t r = 0; r < RANKS; ++r) {
        ranks[r] = packed[r];
        for (size_t s = 0; s < INTERVALS; ++s) {
            for (size_t w = 0; w < BUSY_WORDS(buckets); ++w)
                packed[r][s * BUSY_WORDS(buckets) + w] = scene->times[r][s][w];
        }
    }
    return busy_fit(ranks, RANKS, INTERVALS, scene->bytes, buckets, &scene->cost, before);
}

/* Where a factor alone is found. */
static unsigned
fit(const struct scene *scene, size_t buckets, unsigned before)
{
    struct busy busy = fit_line(scene, buckets, (struct busy){before, 0});
    ck_assert_int_eq(busy.fixed_ns, 0);
    return busy.factor;
}

/* Within three hundredths. */
static void
expect_near(unsigned factor, unsigned wanted)
{
    ck_assert_uint_ge(factor, wanted - wanted * 3 / 100);
    ck_assert_uint_le(factor, wanted + wanted * 3 / 100);
}

/* In each interval another rank comes last; the others wait up to 20 times as long for it. A run of the last takes up
 * to 2 % longer. */
START_TEST(late_ranks_and_noise_do_not_count)
{
    unsigned seed = (unsigned)_i + 1, wanted = 1100 + 200 * (unsigned)_i;
    struct scene scene;
    set_scene(&scene, wanted);
    for (size_t s = 0; s < INTERVALS; ++s) {
        size_t last = (size_t)rand_r(&seed) % RANKS;
        for (size_t r = 0; r < RANKS; ++r) {
            for (size_t k = 0; k < BUCKETS; ++k) {
                int64_t *ns = &scene.times[r][s][1 + 2 * k];
                *ns += r == last ? *ns / 1000 * (rand_r(&seed) % 20) : *ns * (1 + rand_r(&seed) % 20);
            }
        }
    }
    expect_near(fit(&scene, BUCKETS, BUSY_NONE), wanted);
    expect_near(fit(&scene, 1, BUSY_NONE), wanted); /* one size only */
}
END_TEST

START_TEST(outliers_do_not_count)
{
    struct scene scene;
    set_scene(&scene, 2000);
    for (size_t r = 0; r < RANKS; ++r) {
        scene.times[r][1][1] *= 30; /* two intervals of one bucket on all ranks */
        scene.times[r][3][1] /= 30;
    }
    expect_near(fit(&scene, BUCKETS, BUSY_NONE), 2000);
    for (size_t r = 0; r < RANKS; ++r) {
        for (size_t s = 0; s < INTERVALS; ++s) {
            scene.times[r][s][1] = 1; /* a bucket in no time, another in 100 times its cost */
            scene.times[r][s][3] *= 50;
        }
    }
    expect_near(fit(&scene, BUCKETS, BUSY_NONE), 2000);
}
END_TEST

/* Of 20 us to 1 ms of work, by times that are up to 1 % longer. */
START_TEST(a_fixed_cost_is_no_factor)
{
    static const int64_t fixed_ns[] = {0, 60000, 200000, 400000};
    static const unsigned factors[] = {1000, 1400, 3000};
    unsigned seed = (unsigned)_i, wanted = factors[_i % 3];
    int64_t fixed = fixed_ns[_i / 3 % 4];
    struct scene scene;
    set_scene(&scene, wanted);
    for (size_t k = 0; k < BUCKETS; ++k) {
        scene.bytes[k] = UINT64_C(40000) << (4 * k);
        int64_t work_ns = cost_fs(&scene.cost, scene.bytes[k]) / COST_FS_PER_NS;
        for (size_t r = 0; r < RANKS; ++r) {
            for (size_t s = 0; s < INTERVALS; ++s)
                scene.times[r][s][1 + 2 * k] = (work_ns + fixed) * wanted / 1000 * (1000 + rand_r(&seed) % 10) / 1000;
        }
    }
    struct busy busy = fit_line(&scene, BUCKETS, (struct busy){BUSY_NONE, 0});
    for (size_t k = 0; k < BUCKETS; ++k) { /* each size takes what it took */
        int64_t work_ns = cost_fs(&scene.cost, scene.bytes[k]) / COST_FS_PER_NS;
        int64_t told = (work_ns + busy.fixed_ns) * busy.factor / 1000, took = (work_ns + fixed) * wanted / 1000;
        ck_assert_int_le(llabs(told - took), took / 20 + 2000);
    }
    if (fixed > 0)
        ck_assert_int_le(llabs(busy.fixed_ns - fixed), fixed / 10);
    else
        ck_assert_int_eq(busy.fixed_ns, 0);
    struct busy again = fit_line(&scene, BUCKETS, busy);
    ck_assert(again.factor == busy.factor && again.fixed_ns == busy.fixed_ns);
}
END_TEST

START_TEST(samples_are_matched_by_interval)
{
    struct scene scene;
    set_scene(&scene, 3000);
    for (size_t s = 0; s < INTERVALS; ++s) { /* rank 1 has the last three intervals of the others, and two later ones */
        scene.times[1][s][0] += 4;
        if (s >= 3)
            for (size_t k = 0; k < BUCKETS; ++k)
                scene.times[1][s][1 + 2 * k] /= 3; /* which would be the least, if they counted */
    }
    expect_near(fit(&scene, BUCKETS, BUSY_NONE), 3000);
    for (size_t s = 0; s < INTERVALS; ++s)
        scene.times[1][s][0] += 2; /* two are too few */
    ck_assert_uint_eq(fit(&scene, BUCKETS, 1234), 1234);
    for (size_t r = 0; r < RANKS; ++r) {
        for (size_t s = 0; s < INTERVALS; ++s)
            scene.times[r][s][0] = 0; /* to have no sample is no common interval */
    }
    ck_assert_uint_eq(fit(&scene, BUCKETS, 1234), 1234);
}
END_TEST

/* On one rank it was not beside backward: the others' times are not those of a bucket beside backward, either. */
START_TEST(buckets_without_a_time_on_some_rank_do_not_count)
{
    struct scene scene;
    set_scene(&scene, 2000);
    for (size_t s = 0; s < INTERVALS; ++s) {
        scene.times[0][s][1] *= 10;
        scene.times[2][s][1] = 0;
    }
    expect_near(fit(&scene, BUCKETS, BUSY_NONE), 2000);
    ck_assert_uint_eq(fit(&scene, 1, 1500), 1500);
}
END_TEST

/* A share of each bucket's work, in thousandths, was done behind backward, at full speed. */
static void
move_behind(struct scene *scene, int64_t thousandths)
{
    for (size_t r = 0; r < RANKS; ++r) {
        for (size_t s = 0; s < INTERVALS; ++s) {
            for (size_t k = 0; k < BUCKETS; ++k) {
                int64_t *times_ns = &scene->times[r][s][1 + 2 * k];
                times_ns[0] -= times_ns[0] * thousandths / 1000;
                times_ns[1] = cost_fs(&scene->cost, scene->bytes[k]) / COST_FS_PER_NS * thousandths / 1000;
            }
        }
    }
}

START_TEST(what_is_behind_backward_is_at_full_speed)
{
    struct scene scene;
    set_scene(&scene, 3000);
    move_behind(&scene, 450);
    expect_near(fit(&scene, BUCKETS, BUSY_NONE), 3000);
    set_scene(&scene, 3000);
    move_behind(&scene, 550); /* less than half was beside backward */
    ck_assert_uint_eq(fit(&scene, BUCKETS, 1234), 1234);
    set_scene(&scene, 3000);
    move_behind(&scene, 3000); /* more than the cost */
    ck_assert_uint_eq(fit(&scene, BUCKETS, 1234), 1234);
}
END_TEST

START_TEST(times_that_cannot_be_are_refused)
{
    static const int64_t impossible[] = {0, -1, INT64_MIN, INT64_MAX, INT64_C(1800) * 1000 * 1000 * 1000 + 1};
    struct scene scene;
    set_scene(&scene, 2000);
    for (size_t s = 0; s < INTERVALS; ++s)
        scene.times[0][s][2] = scene.times[0][s][4] = scene.times[0][s][6] = -1000;
    ck_assert_uint_eq(fit(&scene, BUCKETS, 1700), 1700);
    set_scene(&scene, 2000);
    for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); ++i) {
        for (size_t r = 0; r < RANKS; ++r) {
            for (size_t s = 0; s < INTERVALS; ++s) {
                for (size_t k = 0; k < BUCKETS; ++k)
                    scene.times[r][s][1 + 2 * k] = impossible[i];
            }
        }
        ck_assert_uint_eq(fit(&scene, BUCKETS, 1700), 1700);
    }
}
END_TEST

START_TEST(the_factor_has_bounds_and_does_not_follow_noise)
{
    struct scene scene;
    set_scene(&scene, 400);
    ck_assert_uint_eq(fit(&scene, BUCKETS, 2000), BUSY_NONE);
    set_scene(&scene, 20000);
    ck_assert_uint_eq(fit(&scene, BUCKETS, BUSY_NONE), BUSY_MOST);
    set_scene(&scene, 1040);
    ck_assert_uint_eq(fit(&scene, BUCKETS, BUSY_NONE), BUSY_NONE);
    set_scene(&scene, 2080);
    ck_assert_uint_eq(fit(&scene, BUCKETS, 2000), 2000);
    set_scene(&scene, 1920);
    ck_assert_uint_eq(fit(&scene, BUCKETS, 2000), 2000);
    set_scene(&scene, 2150);
    expect_near(fit(&scene, BUCKETS, 2000), 2150);
}
END_TEST

/*
 * Three gradients, 1 ms apart; an all-reduce of each costs 1 ms on an idle device, and twice that beside backward.
 * Without that the last of three buckets is done 1 ms after backward, with it 2 ms after.
 */
START_TEST(in_work_forecasts_are_those_of_the_device)
{
    const struct plan_gradient gradients[] = {{1000000, 1}, {1000000, 1}, {1000000, 1}};
    const size_t order[] = {0, 1, 2};
    int64_t ready_ns[] = {1000000, 2000000, 3000000, 3000000};
    struct cost cost;
    struct plan_forecast idle, busy;
    ck_assert(cost_of_link(1, 1000.0, &cost)); /* 1 GB/s, 1 ns */
    struct plan *plan = plan_build(1, gradients, order, 3, 1);
    ck_assert_uint_eq(plan->bucket_count, 3);
    ck_assert(plan_forecast(plan, ready_ns, &cost, &idle));
    ck_assert_int_le(llabs(idle.end_ns - ready_ns[3] - 1000000), 10);
    busy_to_work(ready_ns, 4, BUSY_NONE);
    ck_assert_int_eq(ready_ns[3], 3000000);
    busy_to_work(ready_ns, 4, 2000);
    ck_assert_int_eq(ready_ns[0], 500000);
    ck_assert(plan_forecast(plan, ready_ns, &cost, &busy));
    /* On the device: the first from 1 to 3 ms; the second and the third behind backward, from 3 to 5 ms. */
    ck_assert_int_le(llabs(busy.end_ns - ready_ns[3] - 2000000), 10);
    plan_free(plan);
}
END_TEST

/* The bounds of cost.h hold whatever the factor: end >= bound, and the plan is the same again. */
START_TEST(plans_hold_their_bounds_at_any_factor)
{
    unsigned seed = (unsigned)_i + 99;
    struct plan_gradient gradients[40];
    size_t order[40];
    int64_t ready_ns[41], now_ns = 0;
    struct scene scene;
    set_scene(&scene, 1000);
    for (size_t i = 0; i < 40; ++i) {
        gradients[i] = (struct plan_gradient){4 * (1 + (uint64_t)rand_r(&seed) % 1000000), 1};
        order[i] = i;
        ready_ns[i] = now_ns += rand_r(&seed) % 200000;
    }
    ready_ns[40] = now_ns;
    busy_to_work(ready_ns, 41, BUSY_NONE + (unsigned)rand_r(&seed) % (BUSY_MOST - BUSY_NONE));
    struct plan_forecast forecast, present;
    struct plan *plan = plan_build_measured(1, gradients, ready_ns, order, 40, &scene.cost, &forecast);
    ck_assert_ptr_nonnull(plan);
    ck_assert_int_ge(forecast.end_ns, forecast.bound_ns);
    ck_assert_int_ge(forecast.bound_ns, ready_ns[40]);
    ck_assert(plan_forecast(plan, ready_ns, &scene.cost, &present));
    ck_assert_int_eq(present.end_ns, forecast.end_ns);
    plan_free(plan);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("busy");
    TCase *tcase = tcase_create("properties");
    tcase_add_loop_test(tcase, late_ranks_and_noise_do_not_count, 0, CASES);
    tcase_add_test(tcase, outliers_do_not_count);
    tcase_add_loop_test(tcase, a_fixed_cost_is_no_factor, 0, CASES);
    tcase_add_test(tcase, samples_are_matched_by_interval);
    tcase_add_test(tcase, buckets_without_a_time_on_some_rank_do_not_count);
    tcase_add_test(tcase, what_is_behind_backward_is_at_full_speed);
    tcase_add_test(tcase, times_that_cannot_be_are_refused);
    tcase_add_test(tcase, the_factor_has_bounds_and_does_not_follow_noise);
    tcase_add_test(tcase, in_work_forecasts_are_those_of_the_device);
    tcase_add_loop_test(tcase, plans_hold_their_bounds_at_any_factor, 0, CASES);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

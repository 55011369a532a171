/*
 * test_measured.c - the measured plan holds every byte once, ends no later than a plan by size or one bucket would (as
 * its own forecast says), never before its bound, is the same for the same inputs, brings gradients of one type
 * together where types take turns, and cuts a gradient where that lets the step end earlier.
 */
#include "bucketing/measured.h"

#include "tests/lib/test.h"

enum { CASES = 160, GRADIENTS = 120 };

struct scene {
    struct plan_gradient gradients[GRADIENTS];
    int64_t ready_ns[GRADIENTS];
    size_t order[GRADIENTS];
    size_t count;
    struct cost cost;
};

static void
set_scene(struct scene *scene, unsigned seed)
{
    int64_t ready_ns = 0;
    int stretch = 1 + rand_r(&seed) % 1000000, types = 1 + rand_r(&seed) % 3;
    scene->count = 1 + (size_t)(rand_r(&seed) % GRADIENTS);
    for (size_t i = 0; i < scene->count; ++i) {
        size_t at = (size_t)rand_r(&seed) % (i + 1); /* inside-out shuffle */
        scene->order[i] = scene->order[at];
        scene->order[at] = i;
        scene->gradients[i] = (struct plan_gradient){
            4 * (1 + ((uint64_t)rand_r(&seed) & ((1u << rand_r(&seed) % 24) - 1))), rand_r(&seed) % types};
    }
    for (size_t i = 0; i < scene->count; ++i) {
        ready_ns += rand_r(&seed) % stretch;
        scene->ready_ns[scene->order[i]] = ready_ns;
    }
    struct cost_sample samples[] = {{4096, 1000 * (5 + rand_r(&seed) % 500)}, {1 << 20, 0}, {16 << 20, 0}};
    samples[1].ns = samples[0].ns + rand_r(&seed) % 1000000;
    samples[2].ns = samples[1].ns + rand_r(&seed) % 10000000;
    ck_assert(cost_fit(samples, 3, &scene->cost));
}

static const struct plan *
build(const struct scene *scene, struct plan_forecast *forecast)
{
    return plan_build_measured(3, scene->gradients, scene->ready_ns, scene->order, scene->count, &scene->cost,
                               forecast);
}

static void
check_beats(const struct scene *scene, const struct plan_forecast *forecast, uint64_t cap_bytes)
{
    struct plan_forecast other;
    const struct plan *plan = plan_build(1, scene->gradients, scene->order, scene->count, cap_bytes);
    ck_assert(plan_forecast(plan, scene->ready_ns, &scene->cost, &other));
    ck_assert_int_ge(other.end_ns, forecast->end_ns - forecast->end_ns / 200); /* what fewer buckets may cost */
    ck_assert_int_eq(other.bound_ns, forecast->bound_ns);
    plan_free(plan);
}

TEST_GROUP(properties, .timeout_s = 120);

SEED_TEST(measured_plans_beat_plans_by_size, 0, CASES)
{
    struct scene scene;
    struct plan_forecast forecast, again;
    set_scene(&scene, seed);
    const struct plan *plan = build(&scene, &forecast), *same = build(&scene, &again);
    ck_assert(plan != NULL && same != NULL);
    ck_assert_uint_eq(plan->version, 3);
    ck_assert_int_ge(forecast.end_ns, forecast.bound_ns);
    check_beats(&scene, &forecast, 25 << 20);
    check_beats(&scene, &forecast, 1 << 20);
    check_beats(&scene, &forecast, 1);
    check_beats(&scene, &forecast, UINT64_MAX);

    size_t size, same_size;
    void *bytes = plan_bytes(plan, &size), *same_bytes = plan_bytes(same, &same_size);
    ck_assert_uint_eq(size, same_size);
    ck_assert_mem_eq(bytes, same_bytes, size);
    free(bytes);
    free(same_bytes);
    plan_free(plan);
    plan_free(same);
}

TEST(types_that_take_turns_are_brought_together)
{
    struct scene scene = {.count = GRADIENTS};
    for (size_t i = 0; i < GRADIENTS; ++i) {
        scene.gradients[i] = (struct plan_gradient){40000, (int)(i % 2)};
        scene.ready_ns[i] = (int64_t)i * 1000;
        scene.order[i] = i;
    }
    ck_assert(cost_of_link(1000000, 100000.0, &scene.cost)); /* each turn a bucket: 120 ms of latency alone */
    struct plan_forecast forecast;
    const struct plan *plan = build(&scene, &forecast);
    ck_assert_ptr_nonnull(plan);
    ck_assert_uint_le(plan->bucket_count, 4);
    ck_assert_int_lt(forecast.end_ns, 4 * 1000000);
    plan_free(plan);
}

TEST(a_gradient_is_cut_where_that_is_earlier)
{
    /* Two large gradients, and a cost whose second half is cheaper: part of the first one is reduced while the second
     * is not ready, and the rest with the second. */
    struct scene scene = {.count = 2, .order = {0, 1}};
    struct cost_sample samples[] = {{4096, 1000000}, {64 << 20, 64000000}, {128 << 20, 65000000}};
    scene.gradients[0] = scene.gradients[1] = (struct plan_gradient){64 << 20, 1};
    scene.ready_ns[0] = 1;
    scene.ready_ns[1] = 20000000;
    ck_assert(cost_fit(samples, 3, &scene.cost));
    struct plan_forecast forecast;
    const struct plan *plan = build(&scene, &forecast);
    ck_assert_ptr_nonnull(plan);
    ck_assert_uint_eq(plan->piece_count, 3);
    ck_assert_uint_eq(plan->bucket_of[0], 0);
    ck_assert_uint_eq(plan->last_bucket_of[0], 1);
    ck_assert_uint_eq(plan->pieces[1].first_byte % PLAN_CUT_BYTES, 0);
    ck_assert_int_lt(forecast.end_ns, 85000000); /* whole: 85 ms together, 128 ms one by one */
    plan_free(plan);
}

TEST(what_cannot_be_is_refused)
{
    struct scene scene;
    struct plan_forecast forecast;
    set_scene(&scene, 5);
    scene.count = 2;
    scene.order[0] = scene.order[1] = 0;
    ck_assert_ptr_null(build(&scene, &forecast));
    scene.order[1] = 2;
    ck_assert_ptr_null(build(&scene, &forecast));
    scene.order[1] = 1;
    scene.ready_ns[1] = -1;
    ck_assert_ptr_null(build(&scene, &forecast));
}

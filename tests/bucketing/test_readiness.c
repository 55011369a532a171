/*
 * test_readiness.c - buckets are launched as a simple model says: in order, each exactly once in an interval, never
 * before the last expected touch of every gradient in it, as soon as that has come, and not before the boundary if one
 * of its gradients was touched otherwise. Touches that some intervals lack change nothing of that, in front of the
 * update, and are not expected after it. Buckets that are launched last come after all others.
 */
#include "bucketing/readiness.h"

#include "tests/lib/test.h"

enum { CASES = 400, GRADIENTS = 9, TOUCHES = 60, INTERVALS = 4, UNIT_BYTES = 32768 };

struct event {
    size_t gradient;
    struct touch touch;
};

static struct {
    struct event events[TOUCHES];
    size_t count;
    struct history history;
    const struct plan *plan;
    struct readiness readiness;
} scene;

/* Learns a random interval, and plans it in its own order, with buckets of a few gradients or of a piece of one. */
static void
set_scene(unsigned *seed)
{
    struct plan_gradient gradients[GRADIENTS];
    size_t order[GRADIENTS];
    scene.count = 1 + (size_t)(rand_r(seed) % (TOUCHES - 1));
    for (size_t i = 0; i < scene.count; ++i)
        scene.events[i] = (struct event){(size_t)(rand_r(seed) % GRADIENTS),
                                         {(uint64_t)(rand_r(seed) % 4), (uint32_t)(rand_r(seed) % 2)}};
    for (size_t g = 0; g < GRADIENTS; ++g)
        gradients[g] = (struct plan_gradient){UNIT_BYTES * (1 + (uint64_t)(rand_r(seed) % 100)), 1};

    ck_assert(history_init(&scene.history, GRADIENTS));
    for (size_t i = 0; i < scene.count; ++i)
        history_touch(&scene.history, scene.events[i].gradient, scene.events[i].touch);
    (void)history_boundary(&scene.history);
    history_order(&scene.history, order);
    scene.plan = plan_build(1, gradients, order, GRADIENTS, UNIT_BYTES * (uint64_t)(rand_r(seed) % 2 == 0 ? 150 : 40));
    ck_assert(readiness_init(&scene.readiness, scene.plan, &scene.history));
}

/* Learned: intervals of one gradient. It is planned as it was in the last of them. */
static void
plan_one(void)
{
    const struct plan_gradient gradient = {8, 1};
    const size_t order = 0;
    scene.plan = plan_build(1, &gradient, &order, 1, 100);
    ck_assert(readiness_init(&scene.readiness, scene.plan, &scene.history));
}

static void
clear_scene(void)
{
    readiness_free(&scene.readiness);
    plan_free(scene.plan);
    history_free(&scene.history);
}

/* The model: bucket k may leave after event `at` if all its gradients are touched and are not touched again later. */
static bool
model_is_ready(size_t bucket, size_t at)
{
    for (size_t g = 0; g < GRADIENTS; ++g) {
        if (scene.plan->bucket_of[g] > bucket || scene.plan->last_bucket_of[g] < bucket)
            continue;
        bool touched = false;
        for (size_t i = 0; i < scene.count; ++i) {
            if (scene.events[i].gradient != g)
                continue;
            touched = true;
            if (i > at)
                return false;
        }
        if (!touched)
            return false;
    }
    return true;
}

SEED_TEST(steady_intervals_follow_the_model, 0, CASES)
{
    set_scene(&seed);

    for (int interval = 0; interval < INTERVALS; ++interval) {
        size_t next = 0, bucket;
        for (size_t at = 0; at < scene.count; ++at) {
            const struct event *event = &scene.events[at];
            ck_assert_int_eq(readiness_begin(&scene.readiness, event->gradient, event->touch), TOUCH_EXPECTED);
            ck_assert(!readiness_launch(&scene.readiness, &bucket)); /* not before it is enqueued */
            readiness_enqueued(&scene.readiness, event->gradient);
            while (readiness_launch(&scene.readiness, &bucket)) {
                ck_assert_uint_eq(bucket, next);
                ck_assert(model_is_ready(bucket, at));
                ++next;
            }
            ck_assert(next == scene.plan->bucket_count || !model_is_ready(next, at));
        }
        while (readiness_launch_unready(&scene.readiness, &bucket))
            ck_assert_uint_eq(bucket, next++);
        ck_assert_uint_eq(next, scene.plan->bucket_count);
        readiness_boundary(&scene.readiness);
        ck_assert(readiness_fits(&scene.readiness, &scene.history));
    }
    clear_scene();
}

/* Launches everything that is left. How many buckets of the interval were launched before: *launched_p. */
static void
launch_all(size_t launched)
{
    size_t bucket;
    while (readiness_launch_unready(&scene.readiness, &bucket))
        ck_assert_uint_eq(bucket, launched++);
    ck_assert_uint_eq(launched, scene.plan->bucket_count);
}

SEED_TEST(a_gradient_that_is_touched_otherwise_keeps_its_bucket_until_the_boundary, 5000, CASES)
{
    set_scene(&seed);
    size_t strange_at = (size_t)rand_r(&seed) % scene.count, launched = 0, bucket;
    size_t strange = scene.events[strange_at].gradient, kept = scene.plan->bucket_count;

    for (size_t at = 0; at < scene.count; ++at) {
        const struct event *event = &scene.events[at];
        if (at == strange_at) {
            bool is_launched = scene.readiness.states[scene.plan->bucket_of[strange]] == BUCKET_LAUNCHED;
            ck_assert_int_eq(readiness_begin(&scene.readiness, strange, (struct touch){999, 0}),
                             is_launched ? TOUCH_UNCOUNTED : TOUCH_DEVIATES);
            ck_assert(scene.readiness.deviates);
            kept = is_launched ? kept : scene.plan->bucket_of[strange];
            if (!is_launched)
                ck_assert(!readiness_enqueued(&scene.readiness, strange));
        }
        if (readiness_begin(&scene.readiness, event->gradient, event->touch) != TOUCH_UNCOUNTED)
            (void)readiness_enqueued(&scene.readiness, event->gradient);
        while (readiness_launch(&scene.readiness, &bucket)) {
            ck_assert_uint_eq(bucket, launched++);
            ck_assert_uint_lt(bucket, kept);
        }
        /* others follow the model */
        ck_assert(launched >= kept || launched == scene.plan->bucket_count || !model_is_ready(launched, at));
    }
    launch_all(launched);
    readiness_boundary(&scene.readiness);
    ck_assert(!scene.readiness.deviates);
    clear_scene();
}

/* The first `count` events of the scene, with what they launch. Returns how many buckets that was. */
static size_t
play(size_t count)
{
    size_t launched = 0, bucket;
    for (size_t at = 0; at < count; ++at) {
        const struct event *event = &scene.events[at];
        ck_assert_int_eq(readiness_begin(&scene.readiness, event->gradient, event->touch), TOUCH_EXPECTED);
        (void)readiness_enqueued(&scene.readiness, event->gradient);
        while (readiness_launch(&scene.readiness, &bucket))
            ck_assert_uint_eq(bucket, launched++);
    }
    return launched;
}

SEED_TEST(nothing_is_launched_before_the_boundary_of_a_closed_interval, 7500, CASES)
{
    set_scene(&seed);
    readiness_close(&scene.readiness);
    ck_assert_uint_eq(play(scene.count), 0);
    launch_all(0);
    readiness_boundary(&scene.readiness);
    ck_assert(!scene.readiness.closed); /* the next one is not */
    ck_assert(!scene.readiness.deviates);
    clear_scene();
}

SEED_TEST(touches_after_the_launch_of_a_bucket_are_not_counted, 8000, CASES)
{
    set_scene(&seed);
    (void)play(scene.count);
    for (size_t g = 0; g < GRADIENTS; ++g) {
        bool is_launched = scene.readiness.states[scene.plan->bucket_of[g]] == BUCKET_LAUNCHED;
        ck_assert(is_launched == (readiness_begin(&scene.readiness, g, (struct touch){0, 0}) == TOUCH_UNCOUNTED));
    }
    clear_scene();
}

SEED_TEST(whatever_is_ready_another_rank_may_have_all_buckets_launched, 8500, CASES)
{
    set_scene(&seed);
    size_t asked_at = (size_t)rand_r(&seed) % scene.count, bucket;
    launch_all(play(asked_at));
    for (size_t at = asked_at; at < scene.count; ++at) {
        ck_assert_int_eq(readiness_begin(&scene.readiness, scene.events[at].gradient, scene.events[at].touch),
                         TOUCH_UNCOUNTED);
        ck_assert(!readiness_launch(&scene.readiness, &bucket));
    }
    readiness_boundary(&scene.readiness);
    clear_scene();
}

SEED_TEST(what_was_launched_is_taken_back, 9000, CASES)
{
    set_scene(&seed);
    size_t bucket;
    (void)play(scene.count);
    readiness_take_back(&scene.readiness);
    ck_assert_uint_eq(scene.readiness.launched, 0);
    ck_assert(!readiness_launch(&scene.readiness, &bucket));
    launch_all(0);
    readiness_boundary(&scene.readiness);
    clear_scene();
}

SEED_TEST(some_buckets_are_launched_last_in_order, 9500, CASES)
{
    set_scene(&seed);
    bool last[TOUCHES * GRADIENTS] = {false};
    size_t count = scene.plan->bucket_count, bucket, next = 0, launched = 0;
    ck_assert_uint_lt(count, sizeof(last) / sizeof(last[0]));
    for (size_t k = 0; k < count; ++k) {
        last[k] = rand_r(&seed) % 3 == 0;
        if (last[k])
            readiness_put_last(&scene.readiness, k);
    }
    for (size_t at = 0; at < scene.count; ++at) {
        const struct event *event = &scene.events[at];
        if (readiness_begin(&scene.readiness, event->gradient, event->touch) != TOUCH_UNCOUNTED)
            (void)readiness_enqueued(&scene.readiness, event->gradient);
        while (readiness_launch(&scene.readiness, &bucket)) {
            ck_assert(!last[bucket] && bucket >= next && model_is_ready(bucket, at));
            next = bucket + 1;
            ++launched;
        }
    }
    for (; readiness_launch_unready(&scene.readiness, &bucket); ++launched) {
        ck_assert(!last[bucket] && bucket >= next);
        next = bucket + 1;
    }
    for (next = 0; readiness_launch_last(&scene.readiness, &bucket); ++launched) {
        ck_assert(last[bucket] && bucket >= next);
        next = bucket + 1;
    }
    ck_assert_uint_eq(launched, count);
    readiness_boundary(&scene.readiness);
    clear_scene();
}

SEED_TEST(an_interval_with_one_touch_more_or_less_does_not_fit, 11000, CASES)
{
    set_scene(&seed);
    ck_assert(readiness_fits(&scene.readiness, &scene.history));

    size_t left_out = (size_t)rand_r(&seed) % scene.count;
    bool more = rand_r(&seed) % 2 == 0;
    for (size_t i = 0; i < scene.count; ++i) {
        if (more || i != left_out)
            history_touch(&scene.history, scene.events[i].gradient, scene.events[i].touch);
        if (more && i == left_out)
            history_touch(&scene.history, scene.events[i].gradient, (struct touch){999, 0});
    }
    (void)history_boundary(&scene.history);
    ck_assert(!readiness_fits(&scene.readiness, &scene.history));
    clear_scene();
}

TEST(two_touches_at_once_do_not_take_the_same_place)
{
    /* Learned: one touch. Two threads begin it at the same time: the second is one too many, and nothing leaves. */
    size_t bucket;
    struct touch touch = {1, 0};
    ck_assert(history_init(&scene.history, 1));
    history_touch(&scene.history, 0, touch);
    (void)history_boundary(&scene.history);
    plan_one();

    ck_assert_int_eq(readiness_begin(&scene.readiness, 0, touch), TOUCH_EXPECTED);
    ck_assert_int_eq(readiness_begin(&scene.readiness, 0, touch), TOUCH_DEVIATES);
    readiness_enqueued(&scene.readiness, 0);
    ck_assert(!readiness_launch(&scene.readiness, &bucket));
    readiness_enqueued(&scene.readiness, 0);
    ck_assert(readiness_launch_unready(&scene.readiness, &bucket));
    clear_scene();
}

/* One interval of one gradient, a letter for each touch; capital letters are fixed. */
static void
note_word(struct history *history, const char *word, struct readiness *readiness, char *verdicts)
{
    for (const char *at = word; *at != '\0' && *at != ' '; ++at) {
        struct touch touch = {(uint64_t)*at, *at <= 'Z' ? TOUCH_FIXED : 0};
        size_t bucket;
        history_touch(history, 0, touch);
        if (readiness == NULL)
            continue;
        enum touch_verdict verdict = readiness_begin(readiness, 0, touch);
        if (verdict != TOUCH_UNCOUNTED)
            readiness_enqueued(readiness, 0);
        *verdicts++ = readiness_launch(readiness, &bucket) ? '!' : "=x."[verdict]; /* '!': it is launched */
    }
}

static const char *
next_word(const char *word)
{
    const char *space = strchr(word, ' ');
    return space != NULL ? space + 1 : NULL;
}

static const struct {
    const char *learned; /* intervals; the plan is of the last one */
    bool repeats;        /* the last one repeats the one before */
    const char *then;    /* intervals with the plan, and what they make of each touch */
    const char *verdicts;
} optional_touches[] = {
    /* U: the update, Z: zeros are filled in, b: backward, s: scales, n: a norm, z: a kernel that makes zeros */
    {"UZb UZb sUZb UZb", true, "sUZb UZb ssUZb", ".==! ==! ..==!"},
    {"Uzb Uzb sUzb", true, "sUzb Uzb", ".==! ==!"},
    {"UZb UZb UZb", true, "sUZb sUZb UZb", "xxxx .==! ==!"},
    {"sUZb sUZb sUZb", true, "UZb UZb sUZb", "xxx ==! .==!"},
    {"nUZb nUZb nsUZb", true, "nsUZb nUZb sUZb", "=.==! ===! .xxx"}, /* a norm that always came is missing */
    {"UZb UZb sUZb", true, "UsZb UZsb sZb sb", "=xxx ==xx .xx .x"},
    {"UZb UZb sUZb", true, "UZZb Ub Zb b UZbs", "==xx =x xx x ==!."},
    {"UZb UZb UsZb", false, "UZb", ""}, /* behind the update, or in backward: it may be one of several branches */
    {"UZb UZb UZsb", false, "UZb", ""},
    {"UZb UZb UZbs", false, "UZb", ""}, /* clipping in front of DDP_STEP */
    {"UZb UZb UZbb", false, "UZb", ""}, /* several passes */
    {"UZb UZb Zb", false, "UZb", ""},   /* no update */
    {"Ub Ub UZb", false, "Ub", ""},
    {"zb zb szb", false, "zb", ""}, /* where no update is seen, it may be backward's */
    {"UZb UZb sbUZb", false, "UZb", ""},
    {"nUZb nUZb nnUZb", true, "UZb nUZb nnUZb UnZb", "==! .==! ..==! =xxx"}, /* an unequal number of times */
    {"nsUZb nsUZb snUZb", true, "nsUZb sUZb", "=.==! .xxx"},
    {"zb zb zb", true, "Uzb sUzb xzbs", "xxx xxxx xxxx"}, /* more than was learned: not left out, though optional now */
    {"UZb pUZb qUZb rUZb tUZb", true, "pUZb", ".==!"},
    {"UZb pUZb qUZb rUZb tUZb vUZb wUZb xUZb yUZb aUZb", false, "UZb", ""}, /* more than are remembered */
};

TABLE_TEST(what_some_intervals_lack_may_come_in_front_of_the_update, optional_touches)
{
    size_t bucket;
    bool repeats = false;
    char found[64] = "";
    ck_assert(history_init(&scene.history, 1));
    for (const char *at = optional_touches[_i].learned; at != NULL; at = next_word(at)) {
        note_word(&scene.history, at, NULL, NULL);
        repeats = history_boundary(&scene.history);
    }
    ck_assert_int_eq(repeats, optional_touches[_i].repeats);
    plan_one();
    for (const char *at = optional_touches[_i].repeats ? optional_touches[_i].then : NULL; at != NULL;
         at = next_word(at)) {
        if (found[0] != '\0')
            found[strlen(found)] = ' ';
        note_word(&scene.history, at, &scene.readiness, found + strlen(found));
        while (readiness_launch_unready(&scene.readiness, &bucket)) {
        }
        (void)history_boundary(&scene.history);
        readiness_boundary(&scene.readiness);
        readiness_learn_optional(&scene.readiness, &scene.history);
    }
    ck_assert_str_eq(found, optional_touches[_i].verdicts);
    clear_scene();
}

/* Another plan of the scene's gradients, with buckets of another size. */
static const struct plan *
other_plan(void)
{
    struct plan_gradient gradients[GRADIENTS] = {{0}};
    size_t order[GRADIENTS];
    for (size_t i = 0; i < scene.plan->piece_count; ++i) {
        const struct plan_piece *piece = &scene.plan->pieces[i];
        gradients[piece->gradient].type = 1;
        gradients[piece->gradient].bytes += piece->bytes;
    }
    history_order(&scene.history, order);
    return plan_build(1, gradients, order, GRADIENTS, UNIT_BYTES * UINT64_C(90));
}

static void
enqueue(struct readiness *readiness, const struct event *event)
{
    if (readiness_begin(readiness, event->gradient, event->touch) != TOUCH_UNCOUNTED)
        (void)readiness_enqueued(readiness, event->gradient);
}

/* Switched in the middle of an interval, with one gradient held, or not, it goes on as if it had always followed that
 * plan. */
SEED_TEST(a_plan_that_is_switched_to_is_followed_as_from_the_start, 0, CASES)
{
    struct readiness always;
    set_scene(&seed);
    const struct plan *plan = other_plan();
    ck_assert(plan != NULL && readiness_init(&always, plan, &scene.history));
    size_t held = (size_t)(rand_r(&seed) % (2 * GRADIENTS)), at = (size_t)rand_r(&seed) % scene.count;
    if (held < GRADIENTS) {
        readiness_hold(&always, held);
        readiness_hold(&scene.readiness, held);
    }
    for (size_t i = 0; i < scene.count; ++i) {
        if (i == at)
            ck_assert(readiness_switch(&scene.readiness, plan));
        enqueue(&scene.readiness, &scene.events[i]);
        enqueue(&always, &scene.events[i]);
        size_t bucket, expected;
        while (i >= at && readiness_launch(&always, &expected)) {
            ck_assert(readiness_launch(&scene.readiness, &bucket));
            ck_assert_uint_eq(bucket, expected);
        }
        ck_assert(i < at || !readiness_launch(&scene.readiness, &bucket));
    }
    ck_assert(!scene.readiness.deviates);
    readiness_free(&always);
    clear_scene();
    plan_free(plan);
}

TEST(without_history_everything_waits_for_the_boundary)
{
    struct plan_gradient gradient = {8, 1};
    size_t order = 0, bucket;
    struct touch touch = {1, 0};
    struct readiness readiness;
    const struct plan *plan = plan_build(0, &gradient, &order, 1, 100);
    ck_assert(readiness_init(&readiness, plan, NULL));
    (void)readiness_begin(&readiness, 0, touch);
    readiness_enqueued(&readiness, 0);
    ck_assert(!readiness_launch(&readiness, &bucket));
    ck_assert(readiness_launch_unready(&readiness, &bucket));
    readiness_free(&readiness);
    plan_free(plan);
}

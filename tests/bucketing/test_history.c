/*
 * test_history.c - an interval repeats exactly when every gradient saw the same touches as in the one before, and the
 * first interval of a run never counts.
 */
#include "bucketing/history.h"

#include "tests/lib/test.h"

enum { CASES = 200, GRADIENTS = 7, TOUCHES = 40 };

struct event {
    size_t gradient;
    struct touch touch;
};

static size_t
random_interval(unsigned *seed, struct event *events)
{
    size_t count = (size_t)(rand_r(seed) % TOUCHES);
    for (size_t i = 0; i < count; ++i)
        events[i] = (struct event){(size_t)(rand_r(seed) % GRADIENTS),
                                   {(uint64_t)(rand_r(seed) % 5), (uint32_t)(rand_r(seed) % 3)}};
    return count;
}

static void
play(struct history *history, const struct event *events, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        history_touch(history, events[i].gradient, events[i].touch);
}

/* Another interleaving of the same touches: each gradient's own order is kept. */
static void
interleave_again(unsigned *seed, struct event *events, size_t count)
{
    for (int swaps = 0; swaps < 200 && count > 1; ++swaps) {
        size_t at = (size_t)rand_r(seed) % (count - 1);
        if (events[at].gradient != events[at + 1].gradient) {
            struct event other = events[at];
            events[at] = events[at + 1];
            events[at + 1] = other;
        }
    }
}

static struct history history;

SEED_TEST(a_repeated_interval_is_recognised_whatever_the_interleaving, 0, CASES)
{
    struct event first[TOUCHES], steady[TOUCHES];
    size_t first_count = random_interval(&seed, first), count = random_interval(&seed, steady);
    ck_assert(history_init(&history, GRADIENTS));

    play(&history, first, first_count);
    ck_assert(!history_boundary(&history));
    play(&history, steady, count);
    ck_assert(!history_boundary(&history)); /* differs from, or only chances to equal, the first */
    interleave_again(&seed, steady, count);
    play(&history, steady, count);
    ck_assert(history_boundary(&history));
    history_free(&history);
}

/* An interval in which each gradient is touched once more than in others. */
static void
play_odd(const struct event *steady, size_t count)
{
    play(&history, steady, count);
    for (size_t g = 0; g < GRADIENTS; ++g)
        history_touch(&history, g, (struct touch){.call = 1000 + g});
}

/* How many of `intervals` leave gradient 0 irregular, if every `every`-th is odd and a plan follows them. */
static size_t
count_irregular(const struct event *steady, size_t count, int intervals, int every, bool unsteady)
{
    size_t irregular = 0;
    ck_assert(history_init(&history, GRADIENTS));
    for (int i = 0; i < 3; ++i) {
        play(&history, steady, count);
        ck_assert_int_eq(history_boundary(&history), i == 2);
    }
    history_follow(&history);
    if (unsteady)
        history_note_unsteady(&history, 0);
    for (int i = 1; i <= intervals; ++i) {
        if (i % every == 0)
            play_odd(steady, count);
        else
            play(&history, steady, count);
        (void)history_boundary(&history);
        irregular += history_is_irregular(&history, 0);
    }
    history_free(&history);
    return irregular;
}

SEED_TEST(while_a_plan_is_in_force_two_odd_intervals_of_64_are_none, 1000, 20)
{
    struct event steady[TOUCHES];
    size_t count = random_interval(&seed, steady);
    ck_assert_uint_eq(count_irregular(steady, count, 1000, 70, false), 0);
    ck_assert_uint_eq(count_irregular(steady, count, 1000, 32, false), 0);
    ck_assert_uint_ge(count_irregular(steady, count, 1000, 20, false), 800);
    ck_assert_uint_eq(count_irregular(steady, count, 1000, 2, false), 995);
    ck_assert_uint_ge(count_irregular(steady, count, 60, 70, true),
                      60); /* what has been stale, whatever it looks like */
}

SEED_TEST(one_changed_touch_is_noticed, 1000, CASES)
{
    struct event steady[TOUCHES];
    size_t count = 0;
    while (count == 0)
        count = random_interval(&seed, steady);
    ck_assert(history_init(&history, GRADIENTS));
    for (int i = 0; i < 3; ++i) {
        play(&history, steady, count);
        ck_assert_int_eq(history_boundary(&history), i == 2);
    }

    size_t at = (size_t)rand_r(&seed) % count;
    switch (rand_r(&seed) % 3) {
    case 0:
        steady[at].touch.call += 100;
        break;
    case 1:
        steady[at].touch.argument += 100;
        break;
    default:
        steady[at] = steady[--count]; /* one touch less, for one gradient at least */
    }
    play(&history, steady, count);
    ck_assert(!history_boundary(&history));

    /* Now two equal intervals prove nothing any more; after many, the others are believed, and in the end all are. */
    play(&history, steady, count);
    ck_assert(!history_boundary(&history));
    size_t irregular = GRADIENTS;
    for (int i = 0; i < 100; ++i) {
        size_t now = 0;
        play(&history, steady, count);
        bool repeats = history_boundary(&history);
        for (size_t g = 0; g < GRADIENTS; ++g)
            now += history_is_irregular(&history, g);
        ck_assert_uint_le(now, irregular);
        ck_assert_int_eq(repeats, now < GRADIENTS);
        irregular = now;
        ck_assert(i < 20 || irregular <= 2);
        ck_assert(i > 50 || irregular >= 1);
    }
    ck_assert_uint_eq(irregular, 0);
    history_free(&history);
}

TEST(touches_that_do_not_count_may_differ_in_number)
{
    const struct touch touch = {1, 0};
    ck_assert(history_init(&history, 2));
    for (int i = 0; i < 6; ++i) {
        for (int uncounted = 0; uncounted < i % 3; ++uncounted)
            history_touch_uncounted(&history, 0);
        history_touch(&history, 0, touch);
        history_touch(&history, 1, touch);
        if (i % 2 == 1)
            history_touch(&history, 1, touch);
        history_declare(&history, 1); /* whatever was before */
        ck_assert_int_eq(history_boundary(&history), i >= 2);
    }
    history_touch(&history, 0, touch);
    history_touch_uncounted(&history, 0); /* what counts is not the last any more */
    history_declare(&history, 1);
    ck_assert(!history_boundary(&history));
    history_free(&history);
}

/* Plays one interval of two gradients, each a word of touches, and says whether it is made of several. */
static bool
is_of_several(struct history *history, const char *first, const char *second)
{
    for (const char *at = first; *at != '\0'; ++at)
        history_touch(history, 0, (struct touch){(uint64_t)*at, 0});
    for (const char *at = second; *at != '\0'; ++at)
        history_touch(history, 1, (struct touch){(uint64_t)*at, 0});
    bool several = history_is_of_several(history);
    (void)history_boundary(history);
    return several;
}

TEST(an_interval_of_two_steps_is_recognised)
{
    ck_assert(history_init(&history, 2));
    ck_assert(!is_of_several(&history, "rcwrcw", "rwrw")); /* the first interval lacks the optimizer */
    ck_assert(is_of_several(&history, "rcwrcw", "rwrw"));
    ck_assert(is_of_several(&history, "rcwrcwrcw", ""));
    ck_assert(is_of_several(&history, "rcwrcw", "ww"));
    ck_assert(!is_of_several(&history, "rcw", "rw"));
    ck_assert(!is_of_several(&history, "rcwww", "rcwww")); /* passes that accumulate */
    ck_assert(!is_of_several(&history, "rcwrcw", "rw"));
    ck_assert(!is_of_several(&history, "ww", "wwww")); /* the same, of gradients that no optimizer is seen to read */
    ck_assert(!is_of_several(&history, "", ""));
    history_free(&history);
}

/* Plays an interval, as is_of_several(), and says whether it is the one before with another pass. */
static bool
has_another_pass(struct history *history, const char *first, const char *second)
{
    for (const char *at = first; *at != '\0'; ++at)
        history_touch(history, 0, (struct touch){(uint64_t)*at, 0});
    for (const char *at = second; *at != '\0'; ++at)
        history_touch(history, 1, (struct touch){(uint64_t)*at, 0});
    bool another = history_has_another_pass(history);
    (void)history_boundary(history);
    return another;
}

TEST(an_interval_with_another_backward_pass_is_recognised)
{
    ck_assert(history_init(&history, 2));
    ck_assert(!has_another_pass(&history, "wb", "b"));
    ck_assert(!has_another_pass(&history, "rwbwb", "rbb")); /* the first interval lacks the optimizer */
    ck_assert(!has_another_pass(&history, "rwb", "rb"));
    ck_assert(has_another_pass(&history, "rwbwb", "rbb"));
    ck_assert(!has_another_pass(&history, "rwb", "rb"));
    ck_assert(!has_another_pass(&history, "rwbwb", "rb")); /* of one gradient only */
    ck_assert(!has_another_pass(&history, "rwb", "rb"));
    ck_assert(!has_another_pass(&history, "rwbx", "rbb")); /* another touch, a norm */
    ck_assert(!has_another_pass(&history, "rwb", "rb"));
    ck_assert(has_another_pass(&history, "rwbb", "rbb"));
    ck_assert(!has_another_pass(&history, "", ""));
    history_free(&history);
}

SEED_TEST(order_is_that_of_last_touches_and_untouched_come_last, 2000, CASES)
{
    struct event events[TOUCHES];
    size_t count = random_interval(&seed, events), order[GRADIENTS], last[GRADIENTS];
    for (size_t g = 0; g < GRADIENTS; ++g)
        last[g] = SIZE_MAX;
    for (size_t i = 0; i < count; ++i)
        last[events[i].gradient] = i;

    ck_assert(history_init(&history, GRADIENTS));
    play(&history, events, count);
    (void)history_boundary(&history);
    history_order(&history, order);
    for (size_t i = 1; i < GRADIENTS; ++i) {
        size_t before = last[order[i - 1]], after = last[order[i]];
        ck_assert(before < after || (before == SIZE_MAX && after == SIZE_MAX && order[i - 1] < order[i]));
    }
    history_free(&history);
}

TEST(a_lost_interval_equals_nothing)
{
    struct touch touch = {1, 0};
    ck_assert(history_init(&history, 1));
    for (int i = 0; i < 3; ++i) {
        history_touch(&history, 0, touch);
        history.lost = i == 2;
        ck_assert(!history_boundary(&history));
    }
    history_touch(&history, 0, touch);
    ck_assert(!history_boundary(&history)); /* what was lost is no witness for this one either */
    history_touch(&history, 0, touch);
    ck_assert(history_boundary(&history));
    history_free(&history);
}

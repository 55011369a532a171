/*
 * test_predict.c - the model of a step, on traces made up so that the answer is known: times are chosen, and what
 * follows from them is computed here by hand.
 */
#include "tools/common/range.h"
#include "tools/predict/predict.h"
#include "tools/predict/request.h"

#include "tests/test.h"

#include <json-c/json.h>

enum { RANKS = 3, STEPS = 100, TENSORS = 4, MEGABYTE = 1000000 };

/* A trainer of four tensors of 1 MB, each in a bucket of its own; all times in us. */
struct made {
    int ranks;
    double own_us[RANKS];       /* of a step, until backward is done */
    double layer_us;            /* tensors become ready so far apart, the last one at the boundary */
    double latency_us, byte_us; /* of an all-reduce */
    bool turns;                 /* which rank has own_us[0] changes from step to step */
    bool measured;              /* the engine's own times are in the trace */
    bool fixed;                 /* --bucket-mb */
};

static struct trace_run runs[RANKS];
static struct trace_step steps[RANKS][STEPS];
static struct trace_bucket buckets[RANKS][STEPS][TENSORS];
static struct trace_tensor tensors[TENSORS];
static struct trace_plan plan;
static struct trace_ready ready;
static struct trace_cost costs[3];
static double ready_us[TENSORS];
static size_t members[TENSORS] = {3, 2, 1, 0}, ones[TENSORS] = {1, 1, 1, 1};
static size_t *member_lists[TENSORS] = {&members[0], &members[1], &members[2], &members[3]};

static double
own_of(const struct made *made, int rank, int step)
{
    return made->own_us[made->turns ? (rank + step) % made->ranks : rank];
}

/* One bucket after the other on the last rank; the others wait for it in each of them. */
static void
make_step(const struct made *made, int s)
{
    double last_us = 0.0, end_us = -INFINITY;
    for (int r = 0; r < made->ranks; ++r)
        last_us = fmax(last_us, own_of(made, r, s));
    for (int r = 0; r < made->ranks; ++r)
        steps[r][s] = (struct trace_step){.number = (uint64_t)s + 1,
                                          .overlapped = true,
                                          .begin_us = -own_of(made, r, s),
                                          .backward_us = -own_of(made, r, s) / 2,
                                          .buckets = buckets[r][s],
                                          .bucket_count = TENSORS};
    for (unsigned k = 0; k < TENSORS; ++k) {
        double all_ready_us = -made->layer_us * (TENSORS - 1 - k); /* to the last rank's boundary */
        double begin_us = fmax(all_ready_us, end_us);
        end_us = begin_us + made->latency_us + made->byte_us * MEGABYTE;
        for (int r = 0; r < made->ranks; ++r) {
            double later_us = last_us - own_of(made, r, s), own_us = -made->layer_us * (TENSORS - 1 - k);
            buckets[r][s][k] = (struct trace_bucket){.number = k,
                                                     .early = true,
                                                     .ready_us = own_us,
                                                     .begin_us = fmin(begin_us + later_us, own_us),
                                                     .end_us = end_us + later_us,
                                                     .bytes = MEGABYTE,
                                                     .type = "float32"};
            if (later_us == 0.0)
                buckets[r][s][k].begin_us = begin_us;
            steps[r][s].released_us = fmax(0.0, end_us + later_us);
        }
    }
}

static struct trace
make(const struct made *made)
{
    plan = (struct trace_plan){.members = member_lists, .member_counts = ones, .bucket_count = TENSORS};
    for (int i = 0; i < TENSORS; ++i) {
        tensors[i] = (struct trace_tensor){.bytes = MEGABYTE, .type = "float32"};
        ready_us[i] = -made->layer_us * i;
    }
    ready = (struct trace_ready){.us = ready_us, .count = TENSORS};
    for (int i = 0; i < 3; ++i) {
        uint64_t bytes = (uint64_t)4096 << (6 * i);
        costs[i] = (struct trace_cost){bytes, llround(1e3 * (made->latency_us + made->byte_us * (double)bytes))};
    }
    for (int s = 0; s < STEPS; ++s)
        make_step(made, s);
    for (int r = 0; r < made->ranks; ++r) {
        runs[r] = (struct trace_run){.job = 1,
                                     .rank = r,
                                     .world = made->ranks,
                                     .host = "here",
                                     .bucket_bytes = made->fixed ? 1 << 20 : 0,
                                     .steps = steps[r],
                                     .step_count = STEPS,
                                     .plans = &plan,
                                     .plan_count = 1};
        runs[r].tensors[0] = tensors;
        runs[r].tensor_counts[0] = TENSORS;
        if (made->measured) {
            runs[r].readies = &ready;
            runs[r].ready_count = 1;
            runs[r].costs = costs;
            runs[r].cost_count = 3;
        }
    }
    return (struct trace){.runs = runs, .run_count = (size_t)made->ranks, .job = runs[0].job, .world = made->ranks};
}

static struct model *
model_of(const struct made *made)
{
    struct trace trace = make(made);
    char why[200] = "";
    struct model *model = model_of_trace(&trace, why, sizeof(why));
    ck_assert_msg(model != NULL, "%s", why);
    return model;
}

static struct prediction
predicted(const struct made *made, unsigned ranks, const struct link *link)
{
    struct model *model = model_of(made);
    struct prediction prediction;
    ck_assert(model_predict(model, ranks, link, &prediction));
    model_free(model);
    return prediction;
}

/* Two ranks whose last bucket, of 1 MB, takes 1100 us behind backward; the others are done by then. */
static const struct made plain = {
    .ranks = 2, .own_us = {20000, 20000}, .layer_us = 3000, .latency_us = 100, .byte_us = 0.001, .measured = true};

#define NEAR(value, wanted) ck_assert_double_eq_tol((value), (wanted), 0.002 * (wanted) + 1.0)

/* ---- stretches of a run ---- */

TEST(a_range_has_a_middle_and_room_on_both_sides)
{
    struct range range = {0};
    range_add(&range, 1.9);
    ck_assert_double_eq(range_middle(&range), 1.9);
    range_add(&range, 1.88);
    range_add(&range, 1.89);
    ck_assert_double_eq(range_middle(&range), 1.89);
    ck_assert_double_eq_tol(range_low(&range), 1.88 - 1.89 / 20, 1e-9);
    ck_assert_double_eq_tol(range_high(&range), 1.9 + 1.89 / 20, 1e-9);
    range_add(&range, 2.9); /* of four values three fourths of their spread */
    ck_assert_double_eq_tol(range_middle(&range), 1.895, 1e-9);
    ck_assert_double_eq_tol(range_high(&range), 2.9 + 1.02 * 3 / 4, 1e-9);
    for (int i = 0; i < 20; ++i)
        range_add(&range, 9);
    ck_assert_uint_eq(range.count, RANGE_MOST_VALUES);
}

/* ---- other numbers of ranks ---- */

TEST(one_rank_exposes_nothing)
{
    struct prediction one = predicted(&plain, 1, NULL);
    NEAR(one.step_us, 20000);
    NEAR(one.exposed_us, 0);
}

TEST(the_measured_ranks_take_what_they_took)
{
    struct prediction two = predicted(&plain, 2, NULL);
    NEAR(two.exposed_us, 1100);
    NEAR(two.step_us, 21100);
}

static struct loss losses[8];
static char why[200];

/* The pause is in the mean of 99 steps. Of the 95 that show a range 90 are in stretches without a pause, and one
 * stretch has one in each of ten or eleven. What a control step takes is none of theirs. */
TEST(pauses_are_in_the_range_of_a_step)
{
    struct trace trace = make(&plain);
    for (int r = 0; r < plain.ranks; ++r) {
        steps[r][50].begin_us -= 100000;
        steps[r][20].begin_us -= 90000;
        steps[r][20].control = true;
    }
    struct model *model = model_of_trace(&trace, why, sizeof(why));
    struct prediction one, two;
    ck_assert(model != NULL && model_predict(model, 1, NULL, &one) && model_predict(model, 2, NULL, &two));
    NEAR(one.step_us, 20000 + 100000 / 99.0);
    NEAR(two.step_us, 21100 + 100000 / 99.0);
    double longest_us = 21100 + 100000 / 10.0, shortest_us = 21100 + 100000 / 11.0;
    double margin_us = (longest_us - 21100) / 3;
    ck_assert_double_ge(two.high_us, shortest_us + (shortest_us - 21100) / 3 - 1);
    ck_assert_double_le(two.high_us, longest_us + margin_us + 1);
    ck_assert_double_ge(two.low_us, (21100 - margin_us) * 95 / 99 - 1);
    ck_assert_double_le(two.low_us, 21100 * 0.95);
    ck_assert_double_eq_tol(one.high_us / one.step_us, two.high_us / two.step_us, 1e-9);
    model_free(model);
}

/* A twentieth on both sides is the least. */
TEST(steady_steps_have_a_narrow_range)
{
    struct prediction four = predicted(&plain, 4, NULL);
    ck_assert_double_eq_tol(four.low_us / four.step_us, 0.95, 1e-3);
    ck_assert_double_eq_tol(four.high_us / four.step_us, 1.05, 1e-3);
}

/* 2 (n - 1) latencies of 50 us, 2 (n - 1) / n times the bytes: 8 ranks have 7 times the latency, 1.75 times the bytes.
 */
TEST(a_ring_of_more_ranks_has_more_hops)
{
    struct prediction eight = predicted(&plain, 8, NULL);
    NEAR(eight.exposed_us, 700 + 1750);
}

/* A run with buckets of a fixed size has measured neither ready times nor what an all-reduce costs: all is sent after
 * backward. */
TEST(unmeasured_times_are_the_worst)
{
    struct link link = {.bytes_per_us = 1000, .latency_us = 50};
    struct made fixed = plain;
    fixed.measured = false;
    fixed.fixed = true;
    NEAR(predicted(&fixed, 2, NULL).step_us, 21100);
    NEAR(predicted(&fixed, 2, &link).exposed_us, 100 + 4000);
    struct model *model = model_of(&fixed);
    struct prediction prediction;
    ck_assert(!model_predict(model, 8, NULL, &prediction));
    model_free(model);
}

TEST(a_link_stands_for_what_was_measured)
{
    struct link link = {.bytes_per_us = 1000, .latency_us = 50};
    NEAR(predicted(&plain, 2, &link).exposed_us, 100 + 1000);
    NEAR(predicted(&plain, 8, &link).exposed_us, 700 + 1750);
    struct made alone = plain;
    alone.ranks = 1;
    NEAR(predicted(&alone, 4, &link).exposed_us, 300 + 1500);
}

TEST(one_rank_shows_no_link)
{
    struct made alone = plain;
    alone.ranks = 1;
    struct model *model = model_of(&alone);
    struct prediction prediction;
    ck_assert(!model_predict(model, 2, NULL, &prediction));
    ck_assert(!model_predict(model, 0, NULL, &prediction));
    model_free(model);
}

/* 4 MB at 1 us a byte pass all bounds of time on a million ranks of 1 s each. */
TEST(what_takes_too_long_is_not_predicted)
{
    struct link link = {.bytes_per_us = 0.001, .latency_us = 1e7};
    struct model *model = model_of(&plain);
    struct prediction prediction;
    ck_assert(!model_predict(model, 1000000, &link, &prediction));
    model_free(model);
}

/* Where communication takes longer than backward, better buckets pay the latency less often. */
TEST(buckets_are_planned_anew)
{
    struct link link = {.bytes_per_us = 1e6, .latency_us = 2000};
    struct prediction two = predicted(&plain, 2, &link); /* 4 ms and 1 us for each bucket, ready 3 ms apart */
    ck_assert_double_lt(two.exposed_us, 4 * 4001 - 9000);
    ck_assert_double_ge(two.exposed_us, 4001);
}

/* ---- losses ---- */

static size_t
losses_of(const struct made *made, struct loss *losses)
{
    struct model *model = model_of(made);
    size_t count = model_losses(model, losses, 8);
    model_free(model);
    return count;
}

static bool
is_suggested(const struct made *made, const char *text)
{
    size_t count = losses_of(made, losses);
    for (size_t i = 0; i < count; ++i) {
        if (strstr(losses[i].advice, text) != NULL)
            return true;
    }
    return false;
}

TEST(a_straggler_is_named_with_what_it_costs)
{
    struct made slow = plain;
    slow.ranks = 3;
    slow.own_us[2] = slow.own_us[0];
    slow.own_us[1] = 25000;
    ck_assert_uint_ge(losses_of(&slow, losses), 1);
    ck_assert_str_eq(losses[0].what, "waiting for rank 1: 5 ms per step, last to arrive in 100 of 100 steps");
    ck_assert_ptr_nonnull(strstr(losses[0].advice, "look at rank 1 (here)"));
    NEAR(losses[0].gain_us, 5000);
    NEAR(predicted(&slow, 3, NULL).step_us, 26100);
    ck_assert_double_lt(predicted(&slow, 4, NULL).step_us, 22500); /* of ranks that are equally fast */
}

/* The other rank's collectives contain the wait for it, and its own step is not what one takes. */
TEST(a_straggler_does_not_change_what_is_predicted)
{
    for (int late = 0; late < 2; ++late) {
        struct made slow = plain;
        slow.measured = false;
        slow.own_us[late] = 25000;
        NEAR(predicted(&slow, 1, NULL).step_us, 20000);
        NEAR(predicted(&slow, 2, NULL).exposed_us, 1100);
    }
}

TEST(ranks_that_are_late_in_turns_are_no_stragglers)
{
    struct made turns = plain;
    turns.own_us[1] = 25000;
    turns.turns = true;
    ck_assert(!is_suggested(&turns, "look at rank"));
}

TEST(a_tenth_of_a_step_is_no_straggler)
{
    struct made slow = plain;
    slow.own_us[1] = 22000;
    ck_assert(!is_suggested(&slow, "look at rank"));
    slow.own_us[1] = 22500;
    ck_assert(is_suggested(&slow, "look at rank 1"));
}

/* What other buckets would save is not known of a run that has measured no times. */
TEST(fixed_buckets_are_named_where_they_expose_much)
{
    struct made small = plain;
    small.measured = false;
    small.fixed = true;
    ck_assert_uint_eq(losses_of(&small, losses), 1);
    ck_assert_ptr_nonnull(strstr(losses[0].advice, "--bucket-mb"));
    ck_assert(losses[0].unmeasured);
    small.fixed = false;
    ck_assert(!is_suggested(&small, "--bucket-mb"));
}

/* Half of the bytes: 500 of 1100 us, of a step of 21 ms. */
TEST(compression_is_suggested_where_bytes_count)
{
    ck_assert_uint_eq(losses_of(&plain, losses), 1);
    ck_assert_ptr_nonnull(strstr(losses[0].advice, "--compress"));
    NEAR(losses[0].gain_us, 500);
}

/* All 4 MB take 9 ms, of which 5 ms are latency. */
TEST(compression_saves_no_latency)
{
    struct made late = plain;
    late.latency_us = 5000;
    ck_assert_uint_eq(losses_of(&late, losses), 0);
    late.latency_us = 500;
    ck_assert_uint_eq(losses_of(&late, losses), 1);
    ck_assert_ptr_nonnull(strstr(losses[0].advice, "--compress"));
}

TEST(nothing_is_suggested_for_a_hundredth)
{
    struct made fast = plain;
    fast.byte_us = 0.0003;
    ck_assert_uint_eq(losses_of(&fast, losses), 0);
}

TEST(the_greatest_gain_comes_first)
{
    struct made both = plain;
    both.own_us[1] = 26000;
    size_t count = losses_of(&both, losses);
    ck_assert_uint_ge(count, 2);
    for (size_t i = 1; i < count; ++i)
        ck_assert_double_ge(losses[i - 1].gain_us, losses[i].gain_us);
    ck_assert_ptr_nonnull(strstr(losses[0].advice, "rank 1"));
    struct model *model = model_of(&both);
    ck_assert_uint_eq(model_losses(model, losses, 1), 1);
    model_free(model);
}

/* ---- which steps count ---- */

TEST(control_steps_do_not_count)
{
    struct trace trace = make(&plain);
    for (int r = 0; r < 2; ++r) {
        for (int s = 0; s < STEPS; ++s) {
            if (s >= 4 && s % 2 == 0)
                continue;
            steps[r][s].begin_us = -90000;
            steps[r][s].control = s >= 4; /* its buckets leave early, as while overlap is off */
        }
    }
    struct model *model = model_of_trace(&trace, why, sizeof(why));
    struct prediction one;
    ck_assert_ptr_nonnull(model);
    ck_assert(model_predict(model, 1, NULL, &one));
    NEAR(one.step_us, (4 * 90000 + 48 * 20000) / 52.0);
    model_free(model);
}

/* The last trial says what collectives slow. Whether overlap pays is decided in the run, and no advice. */
TEST(a_trial_says_what_overlap_costs)
{
    struct trace_trial trials[] = {{.slowed_us = 9000, .overlapped_us = 21100, .apart_us = 30000},
                                   {.slowed_us = 6000, .overlapped_us = 21100, .apart_us = 18100}};
    struct trace trace = make(&plain);
    struct prediction one, two;
    runs[0].trials = trials;
    runs[0].trial_count = 2;
    struct model *model = model_of_trace(&trace, why, sizeof(why));
    ck_assert_ptr_nonnull(model);
    ck_assert(model_predict(model, 1, NULL, &one) && model_predict(model, 2, NULL, &two));
    NEAR(one.step_us, 14000);
    NEAR(two.step_us, 21100);
    for (size_t i = 0, count = model_losses(model, losses, 8); i < count; ++i)
        ck_assert_ptr_null(strstr(losses[i].advice, "--no-overlap"));
    model_free(model);
}

/* A step takes 2 ms longer than the model knows, and exposes 1.5 ms more: so will others. */
TEST(others_are_scaled_to_what_was_measured)
{
    struct prediction two, eight;
    struct trace trace = make(&plain);
    struct facts facts;
    facts_find(&trace, &facts);
    facts.step_us = 23100;
    facts.exposed_us = 2600;
    struct model *model = model_of_facts(&facts, why, sizeof(why));
    facts_free(&facts);
    ck_assert(model_predict(model, 2, NULL, &two) && model_predict(model, 8, NULL, &eight));
    NEAR(two.step_us, 23100);
    ck_assert_double_eq_tol(two.low_us / two.step_us, 0.95, 1e-3); /* steps that the trace has are alike */
    NEAR(two.exposed_us, 2600);
    NEAR(eight.exposed_us, 700 + 1750 + 1500);
    NEAR(eight.step_us, 20000 + 700 + 1750 + 2000);
    model_free(model);
}

/* Of the latest 20 it is rank 0, but the table is of all. */
TEST(the_rank_that_is_last_is_the_one_of_the_table)
{
    struct trace trace = make(&plain);
    struct facts facts;
    char text[WAITING_TEXT_BYTES];
    for (int s = 0; s < STEPS; ++s)
        steps[s < 60 ? 0 : 1][s].released_us += 1000;
    runs[0].summary = json_tokener_parse("{\"first_measured\": 1, \"last_measured\": 100, \"waited_for\": null}");
    facts_find(&trace, &facts);
    ck_assert_str_eq(facts_waiting_text(&facts, text), "waiting for each other: 0.5 ms per step");
    facts_free(&facts);
    json_object_put(runs[0].summary);
}

/* One step is ten times as long: its time is in the mean. */
TEST(a_step_takes_the_mean)
{
    struct trace trace = make(&plain);
    struct facts facts;
    for (int r = 0; r < 2; ++r)
        steps[r][90].begin_us *= 10;
    facts_find(&trace, &facts);
    NEAR(facts.step_us, 21100 + 9 * 20000.0 / STEPS);
    NEAR(facts.step_us, facts.own_us + facts.exposed_us + facts.waiting_us);
    facts_free(&facts);
}

/* What was measured is of all steps; others are predicted to go the last way. */
TEST(what_steps_do_last_is_predicted)
{
    struct trace trace = make(&plain);
    for (int r = 0; r < 2; ++r) {
        for (int s = 20; s < STEPS; ++s) {
            steps[r][s].overlapped = false;
            steps[r][s].released_us = 4100;
        }
    }
    struct model *model = model_of_trace(&trace, why, sizeof(why));
    struct prediction two, eight;
    ck_assert_ptr_nonnull(model);
    ck_assert(model_predict(model, 2, NULL, &two) && model_predict(model, 8, NULL, &eight));
    double all_us = (20 * 1100 + 80 * 4100) / 100.0; /* of most steps all of it is after backward */
    NEAR(two.step_us, 20000 + all_us);
    NEAR(eight.step_us, 20000 + 700 + 7000 + (all_us - 4100));
    model_free(model);
}

/* A run on 3 ranks exposes nothing, where the model has 1.1 ms: 2 ranks would be faster than without averaging. */
TEST(an_impossible_speed_up_is_said_as_it_is_computed)
{
    struct predict_request request = {.counts = {2, 3}, .count_count = 2, .folder = "trace"};
    struct made three = plain;
    three.ranks = 3;
    three.own_us[2] = three.own_us[0];
    struct trace trace = make(&three);
    struct facts facts;
    facts_find(&trace, &facts);
    facts.step_us -= facts.exposed_us;
    facts.exposed_us = 0;
    struct forecasts forecasts = {.request = &request, .kept = model_of_facts(&facts, why, sizeof(why)), .shares = 1};
    facts_free(&facts);
    struct prediction two;
    ck_assert(model_predict(forecasts.kept, 2, NULL, &two));
    ck_assert_double_eq_tol(two.exposed_us, 50 + 750 - 1100, 1);
    ck_assert_double_eq_tol(two.step_us, 20000 + two.exposed_us, 1);
    char *text;
    size_t length;
    struct error error;
    stdout = open_memstream(&text, &length);
    ck_assert(table_print(&forecasts, &error) && fclose(stdout) == 0);
    ck_assert_msg(strstr(text, "  a speed-up of 2.030 on 2 ranks is impossible: ") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "  exposed communication below 0 is impossible: ") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "      -            -  ") != NULL, "%s", text);
    ck_assert_msg(strstr(text, " 50.00            -       3.00        1.000 ") != NULL, "%s", text);
    free(text);
    model_free(forecasts.kept);
}

static void
require_refused(const struct trace *trace, const char *text)
{
    char why[200] = "";
    ck_assert_ptr_null(model_of_trace(trace, why, sizeof(why)));
    ck_assert_msg(strstr(why, text) != NULL, "%s", why);
}

TEST(what_is_no_step_is_named)
{
    struct trace trace = make(&plain);
    for (int s = 0; s < STEPS; ++s)
        steps[0][s].in_graph = true;
    require_refused(&trace, "CUDA graphs");
    trace = make(&plain);
    runs[0].step_count = 3;
    require_refused(&trace, "too few steps");
    runs[0].step_count = 0;
    require_refused(&trace, "no steps");
    trace = make(&plain);
    runs[0].tensor_counts[0] = 0;
    require_refused(&trace, "does not list the gradients");
    trace.run_count = 0;
    require_refused(&trace, "no rank");
}

/* ---- --link ---- */

static const struct {
    const char *text;
    double bytes_per_us, latency_us;
} links[] = {{"100Gbit,5us", 12500, 5},
             {"1000Mbit,0.5ms", 125, 500},
             {"12.5GB,800ns", 12500, 0.8},
             {"51.2MB,1000us", 51.2, 1000},
             {"1GB,0us", 1000, 0}};

TABLE_TEST(links_are_read, links)
{
    struct link link;
    ck_assert(predict_parse_link(links[_i].text, &link));
    ck_assert_double_eq_tol(link.bytes_per_us, links[_i].bytes_per_us, 1e-9);
    ck_assert_double_eq_tol(link.latency_us, links[_i].latency_us, 1e-9);
}

static const char *const no_links[] = {"",
                                       "100Gbit",
                                       ",",
                                       "100Gbit,",
                                       ",5us",
                                       "100,5us",
                                       "100Gbit,5",
                                       "100 Gbit,5us",
                                       "100Gbit, 5us",
                                       "-1Gbit,5us",
                                       "1Gbit,-5us",
                                       "1e3Gbit,5us",
                                       "0x10Gbit,5us",
                                       "0Gbit,5us",
                                       "1.Gbit,5us",
                                       ".5Gbit,5us",
                                       "100Gbit,5us,",
                                       "100gbit,5us",
                                       "100Gbit,5Us",
                                       "infGB,5us",
                                       "1Gbit,11000ms",
                                       "9999999999999GB,5us"};

TABLE_TEST(other_links_are_not, no_links)
{
    struct link link = {1, 2};
    ck_assert_msg(!predict_parse_link(no_links[_i], &link), "%s", no_links[_i]);
    ck_assert_double_eq(link.bytes_per_us, 1);
}

/*
 * test_verdict.c - who is said to have failed, with which exit code, and what is claimed at a good end.
 */
#include "launcher/watch/verdict.h"

#include "base/protocol.h"
#include "launcher/report/closing.h"
#include "tests/lib/test.h"

/* Of a view: the stage of its rank, and the place of the rank among those that have ended. */
#define IN(name)      .stage = RANK_STAGE_##name
#define LEAVES(place) .ended = true, .order = (place)
#define TRAINING      IN(TRAINING), .step = 7
#define DONE          IN(ENDED), .step = 7, LEAVES(1)
#define LEFT          IN(RANK), LEAVES(1)

enum { MOST_RANKS = 3 };

static const struct scene {
    const char *what;
    int count;
    struct rank_view ranks[MOST_RANKS];
    bool at_end;
    int exit_code;      /* 0: no failure */
    const char *begins; /* of the message */
} scenes[] = {
#define COUNT_OF(...) (int)(sizeof((struct rank_view[]){__VA_ARGS__}) / sizeof(struct rank_view))
#define RUNNING(what, exit_code, begins, ...)                                \
    {                                                                        \
        what, COUNT_OF(__VA_ARGS__), {__VA_ARGS__}, false, exit_code, begins \
    }
#define AT_END(what, exit_code, begins, ...)                                \
    {                                                                       \
        what, COUNT_OF(__VA_ARGS__), {__VA_ARGS__}, true, exit_code, begins \
    }
    RUNNING("all train", 0, NULL, {TRAINING}, {TRAINING}),
    AT_END("all are done", 0, NULL, {DONE}, {DONE}),
    RUNNING("an exit code", 3, "rank 1 ended with exit code 3 after step 7", {TRAINING},
            {TRAINING, LEAVES(1), .exit_code = 3}),
    RUNNING("an exit code, and the last line", 3,
            "rank 1 ended with exit code 3 after step 7; its last line: \"no room\"", {TRAINING},
            {TRAINING, LEAVES(1), .exit_code = 3, .last_line = "no room"}),
    RUNNING("a signal", 139, "rank 1 was ended by SIGSEGV", {TRAINING}, {TRAINING, LEAVES(1), .signal = SIGSEGV}),
    RUNNING("a signal, and the place in the program", 139,
            "rank 1 was ended by SIGSEGV (Segmentation fault) after step 7, at t.cu:8, in f()", {TRAINING},
            {TRAINING, LEAVES(1), .signal = SIGSEGV, .crash_place = "t.cu:8, in f()"}),
    RUNNING("a signal of the scheduler's", 138,
            "rank 1 was ended by SIGUSR1 (User defined signal 1) after step 7; it has no handler for the signal",
            {TRAINING}, {TRAINING, LEAVES(1), .signal = SIGUSR1}),
    RUNNING("who left behind what may be the trainer", 1,
            "rank 1 ended with exit code 0 and left process 12 (t) running", {0},
            {LEAVES(1), .left_pid = 12, .left_name = "t"}),
    AT_END("the same of the only rank", 1, "rank 0 ended with exit code 0 and left process 12 (t) running",
           {LEAVES(1), .left_pid = 12, .left_name = "t"}),
    AT_END("by a plan: the rank that trained alone", 1,
           "rank 0 made 3 updates alone after step 7: what it saved is not the result of 2 ranks",
           {IN(ENDED), LEAVES(2), .step = 7, .alone_updates = 3}, {IN(ENDED), LEAVES(1), .step = 7}),
    RUNNING("a rank that closed its descriptors, not the one that noticed", 1,
            "rank 1 after step 7 has closed its connection to ddprun, and process 12 continues",
            {IN(FAILED), .step = 8, .failure_follows = true, .failure = "rank 1 has left"},
            {TRAINING, .connected = true, .severed = true, .pid = 12}),
    RUNNING("the same before any has noticed", 0, NULL, {TRAINING}, {TRAINING, .connected = true, .severed = true}),
    RUNNING("the same of one that has ended since", 3, "rank 1 ended with exit code 3",
            {IN(FAILED), .step = 8, .failure_follows = true, .failure = "rank 1 has left"},
            {TRAINING, .connected = true, .severed = true, LEAVES(1), .exit_code = 3}),
    RUNNING("want of memory", 137,
            "rank 1 was ended by SIGKILL (Killed) after step 7: killed by the kernel's out-of-memory handling;",
            {TRAINING}, {TRAINING, LEAVES(1), .signal = SIGKILL, .out_of_memory = true}),
    RUNNING("of several hosts, the rank's is named", 139, "rank 1 (host h2, process 12) was ended by SIGSEGV",
            {TRAINING, .host = "h1"}, {TRAINING, .host = "h2", .pid = 12, LEAVES(1), .signal = SIGSEGV}),
    RUNNING("of one host, it is not", 139, "rank 1 was ended by SIGSEGV", {TRAINING, .host = "h1"},
            {TRAINING, .host = "h1", .pid = 12, LEAVES(1), .signal = SIGSEGV}),
    RUNNING("the earliest counts", 137, "rank 1 was ended by SIGKILL", {TRAINING, LEAVES(3), .exit_code = 4},
            {TRAINING, LEAVES(2), .signal = SIGKILL}, {TRAINING}),
    RUNNING("who says why counts more", 1, "rank 1 after step 7: cannot continue (first of 2 failed ranks)",
            {TRAINING, LEAVES(1), .exit_code = 4}, {IN(FAILED), .step = 7, .failure = "cannot continue"}),
    RUNNING("a step that the text names is the only one", 1, "rank 0: in step 5 f wrote g (first of 2 failed ranks)",
            {IN(FAILED), .step = 7, .failure = "in step 5 f wrote g", .failure_by = RANK_SAYS_STEP},
            {TRAINING, LEAVES(2), .signal = SIGKILL}),
    RUNNING(
        "what all ranks report alike is reported of all", 1, "w differs between ranks 0 and 1 after step 5",
        {IN(FAILED), .step = 7, .failure = "w differs between ranks 0 and 1 after step 5", .failure_by = RANK_SAYS_ALL},
        {IN(FAILED), .step = 7, .failure = "w differs between ranks 0 and 1 after step 5",
         .failure_by = RANK_SAYS_ALL}),
    RUNNING("who only follows counts less", 137, "rank 1 was ended by SIGKILL (Killed) after step 7;",
            {IN(FAILED), .failure = "rank 1 is gone", .failure_follows = true},
            {TRAINING, LEAVES(2), .signal = SIGKILL}),
    RUNNING("a rank that only follows counts when no other rank failed", 1,
            "rank 0 before its first step: waited 600 s",
            {IN(FAILED), .failure = "waited 600 s", .failure_follows = true}, {TRAINING}),
    RUNNING("who cannot tell whose fault it is counts more than who follows", 1,
            "rank 1 before its first step: no memory",
            {IN(FAILED), .failure = "rank 1 is gone", .failure_follows = true},
            {IN(FAILED), .failure = "no memory", .failure_follows = true, .failure_by = RANK_MAY_FOLLOW}),
    RUNNING("and less than who died", 137, "rank 1 was ended by SIGKILL (Killed) after step 7;",
            {IN(FAILED), .failure = "a system call", .failure_follows = true, .failure_by = RANK_MAY_FOLLOW},
            {TRAINING, LEAVES(2), .signal = SIGKILL}),
    RUNNING("who has ended is missed in the next training", 1,
            "rank 1 ended after 2 programs that trained, but others have begun one more; all ranks must train the same "
            "number of times",
            {IN(RANK), .generation = 2}, {DONE, .generation = 1}),
    RUNNING("steps of the training before do not count", 0, "", {DONE, .generation = 1}, {IN(ENDED), .step = 9}),
    AT_END("who annotated gradients makes steps", 1, "rank 0 annotated 2 gradients and ended without a DDP_STEP",
           {IN(RANK), .gradient_count = 2, LEAVES(1)}, {IN(RANK), .gradient_count = 2, LEAVES(2)}),
    AT_END("or has worked on them, though its parameters are as they were", 1,
           "rank 0 annotated 2 gradients and ended without a DDP_STEP",
           {LEFT, .gradient_count = 2, .parameter_count = 2, .gradient_work = 1},
           {LEFT, .gradient_count = 2, .parameter_count = 2, .gradient_work = 1}),
    AT_END("an evaluation that leaves by _exit", 0, NULL, {LEFT, .gradient_count = 2, .parameter_count = 2},
           {LEFT, .gradient_count = 2, .parameter_count = 2}),
    AT_END("parameters that changed, without gradients", 1,
           "parameters of rank 0 changed, and it ended without a DDP_STEP",
           {LEFT, .parameter_count = 2, .changed_count = 1}, {LEFT, .parameter_count = 2}),
    AT_END("kernels without annotations", 1, "rank 0 launched 7 kernels and ended without an annotation",
           {LEFT, .launch_count = 7}, {LEFT, .launch_count = 7}),
    AT_END("the same with --unannotated", 0, NULL, {LEFT, .launch_count = 7, .unannotated = true},
           {LEFT, .launch_count = 7, .unannotated = true}),
    AT_END("the same of one rank", 0, NULL, {LEFT, .launch_count = 7}),
    AT_END("who left by _exit may have missed a comparison", 0, "",
           {DONE, .check_count = 4, .checked_step = 7, .parameter_hash = 5},
           {TRAINING, LEAVES(1), .check_count = 3, .checked_step = 6, .parameter_hash = 8}),
    AT_END("who left by _exit within a round of turns", 1,
           "rank 1 left with exit code 0 after 97 batches in turns, without exit handlers (_exit or exec?), rank 0 had "
           "100",
           {DONE, .turn_batches = 100}, {TRAINING, LEAVES(1), .turn_batches = 97}),
    AT_END("who left by _exit after all batches", 0, "", {DONE, .turn_batches = 100},
           {TRAINING, LEAVES(1), .turn_batches = 100}),
    AT_END("a rank that reached its end has missed no step", 1, "ranks 0 and 1 disagree on the number of comparisons",
           {DONE, .check_count = 4, .checked_step = 7, .parameter_hash = 5},
           {DONE, .check_count = 3, .checked_step = 6, .parameter_hash = 8}),
    RUNNING("details stay after the first line", 1,
            "rank 0 before its first step: why (first of 2 failed ranks)\n  stack",
            {IN(FAILED), .failure = "why\n  stack"}, {TRAINING, LEAVES(1), .exit_code = 1}),
    RUNNING("a rank that never took part", 1, "rank 1 ended without taking part", {TRAINING}, {IN(GATE), LEAVES(1)}),
    AT_END("no rank took part", 0, NULL, {LEAVES(1)}, {LEAVES(1)}),
    AT_END("no preload", 1, "rank 0 used the CUDA driver in a process", {LEAVES(1), .missed_preload = true},
           {LEAVES(1)}),
    RUNNING("who never takes part, while others wait to meet it", 1, "rank 1 ended without taking part",
            {IN(GATE), .connected = true}, {LEAVES(1)}),
    RUNNING("who has done what others do, without an engine that says how far", 0, NULL, {IN(NONE), .connected = true},
            {LEAVES(1)}),
    RUNNING("who ends before the others have called anything", 0, NULL, {IN(NONE)}, {LEAVES(1)}),
    RUNNING("the same, where others look for the driver", 0, NULL, {IN(GATE)}, {LEAVES(1)}),
    AT_END("no preload does not matter to one rank", 0, NULL, {LEAVES(1), .missed_preload = true}),
    RUNNING("a rank that is done waits for others", 0, NULL, {TRAINING}, {DONE}),
    RUNNING("fewer steps than others", 1, "rank 1 ended after step 7, others", {IN(TRAINING), .step = 8}, {DONE}),
    RUNNING("more steps than others, still running", 0, NULL, {IN(TRAINING), .step = 6}, {DONE}),
    RUNNING("ended in the middle, a moment ago", 0, NULL, {TRAINING}, {TRAINING, LEAVES(1)}),
    RUNNING("ended in the middle", 1, "rank 1 left with exit code 0 after step 7", {TRAINING},
            {TRAINING, LEAVES(1), .left_early = true}),
    AT_END("all ended in the middle", 0, NULL, {TRAINING, LEAVES(1)}, {TRAINING, LEAVES(2)}),
    AT_END("all ended in the middle of different steps", 1, "rank 0 ended after step 7, others continued to step 8",
           {TRAINING, LEAVES(1)}, {IN(TRAINING), .step = 8, LEAVES(2)}),
    AT_END("hashes differ", 1, "parameters differ between ranks 0 and 1",
           {DONE, .check_count = 1, .checked_step = 7, .parameter_hash = 1},
           {DONE, .check_count = 1, .checked_step = 7}),
    AT_END("comparisons differ", 1, "ranks 0 and 1 disagree on the number", {DONE, .check_count = 2},
           {DONE, .check_count = 1}),
};

TABLE_TEST(failures_are_reported, scenes)
{
    const struct scene *scene = &scenes[_i];
    struct error error = {.exit_code = 77};
    bool failed = scene->at_end ? verdict_find_at_end(scene->ranks, scene->count, &error)
                                : verdict_find(scene->ranks, scene->count, &error);
    ck_assert_msg(failed == (scene->exit_code != 0), "%s: %s", scene->what, failed ? error.text : "no failure");
    if (!failed)
        return;
    ck_assert_msg(error.exit_code == scene->exit_code, "%s: exit code %d", scene->what, error.exit_code);
    ck_assert_msg(strncmp(error.text, scene->begins, strlen(scene->begins)) == 0, "%s: %s", scene->what, error.text);
}

/* Whatever is put into a failure text, it comes out whole and ends. */
TEST(the_longest_text_fits)
{
    struct rank_view ranks[2] = {{.stage = RANK_STAGE_FAILED}, {TRAINING, .ended = true, .order = 1, .exit_code = 1}};
    memset(ranks[0].failure, 'x', sizeof(ranks[0].failure) - 1);
    struct error error;
    ck_assert(verdict_find(ranks, 2, &error));
    ck_assert_says(error.text, "x (first of 2 failed");
}

static char said[4096];

static void
say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t used = strlen(said);
    used += (size_t)vsnprintf(said + used, sizeof(said) - used, format, args);
    va_end(args);
    snprintf(said + used, sizeof(said) - used, "\n");
}

/* What is said of these ranks. */
static const char *
closing(const struct rank_view *ranks, int count, bool summary)
{
    said[0] = '\0';
    closing_lines(ranks, count, summary, say);
    return said;
}

static const char *
unaveraged(const struct rank_view *ranks, int count)
{
    said[0] = '\0';
    closing_say_unaveraged(ranks, count, say);
    return said;
}

TEST(closing_lines_claim_what_was_checked)
{
    struct rank_view ranks[2] = {
        {DONE, .overlapped_step = 5, .gradient_count = 1, .gradient_bytes = 512, .bucket_count = 1},
        {DONE, .overlapped_step = 4}};
    ck_assert_str_eq(closing(ranks, 2, true),
                     "2 ranks, 7 steps, 4 of them overlapped (their all-reduces were launched during backward, those "
                     "of the others at DDP_STEP); 1 gradient, 512 bytes "
                     "per step, in 1 bucket\n"
                     "parameters were not compared across ranks: the program annotates no parameter (DDP_PARAMETER)\n");
    ranks[0].parameter_elements = 130;
    ck_assert_says(closing(ranks, 2, true),
                   "\nparameters were not compared across ranks; --check-every K compares them every K steps\n");
    ranks[0].check_count = ranks[1].check_count = 1;
    ranks[0].checked_step = ranks[1].checked_step = 3;
    ranks[0].gradient_elements = 128;
    ck_assert_says(closing(ranks, 2, true),
                   "\nannotated parameters bitwise identical on all ranks when last compared (hash 0000000000000000, "
                   "compared 1 time, last after step 3 of 7); 130 elements of parameters, 128 of gradients\n");
    ranks[0].checked_step = ranks[1].checked_step = 7;
    ranks[0].gradient_count = 0;
    ck_assert_says(closing(ranks, 2, true), "overlapped (their all-reduces were launched during backward, those of the "
                                            "others at DDP_STEP); no gradients at the end (DDP_FORGET)\n");
    ranks[0].gradient_count = 1;
    ck_assert_says(closing(ranks, 2, true),
                   "\nannotated parameters bitwise identical on all ranks (hash 0000000000000000, compared 1 "
                   "time, last after step 7 of 7); 130 elements of parameters, 128 of gradients\n");
    ck_assert_ptr_null(strstr(closing(ranks, 1, true), "parameters"));
    ranks[0].sums = true;
    ck_assert_says(closing(ranks, 2, true), "per step, summed in 1 bucket\n");
    ck_assert_str_eq(closing(ranks, 2, false), "");
}

/* A program that calls DDP_REDUCE and annotates no gradient needs no DDP_STEP; one that annotates gradients does. */
TEST(reductions_need_no_step)
{
    struct rank_view ranks[2] = {{.stage = RANK_STAGE_RANK, .ended = true, .order = 1, .launch_count = 40},
                                 {.stage = RANK_STAGE_RANK, .ended = true, .order = 1, .launch_count = 40}};
    struct error error;
    ck_assert(verdict_find(ranks, 2, &error));
    for (int i = 0; i < 2; ++i) {
        ranks[i].reduce_count = 3;
        ranks[i].reduce_bytes = 2048;
        ranks[i].changed_count = 1; /* of a parameter */
        ranks[i].parameter_count = 1;
    }
    ck_assert(!verdict_find(ranks, 2, &error));
    ck_assert_str_eq(unaveraged(ranks, 2), "");
    ck_assert_str_eq(closing(ranks, 2, true), "2 ranks, 3 calls of DDP_REDUCE, 2.0 KiB in all\n");
    for (int i = 0; i < 2; ++i)
        ranks[i].gradient_count = 1;
    ck_assert(verdict_find(ranks, 2, &error));
}

TEST(waiting_is_that_of_the_rank_that_came_last)
{
    struct rank_view ranks[2] = {
        {DONE, .exposed_bound_ns = 1500000},
        {DONE, .exposed_bound_ns = 1500000},
    };
    for (uint64_t step = 1; step <= 7; ++step) {
        ranks[0].exposed_steps[rank_exposed_place(step)] = rank_exposed_pack(step, 9000000);
        ranks[1].exposed_steps[rank_exposed_place(step)] = rank_exposed_pack(step, 2000000);
    }
    ck_assert_says(closing(ranks, 2, true),
                   "\nexposed communication: 2 ms per step (mean of 7 measured steps); estimated lower bound for "
                   "any bucket layout: 1.5 ms\n");
    ranks[0].exposed_bound_ns = 3000000; /* all-reduces took less than at the start: what was computed is said */
    ck_assert_says(closing(ranks, 2, true), "; estimated lower bound for any bucket layout: 3 ms\n");
    ranks[0].exposed_bound_ns = UINT64_MAX;
    ck_assert_says(closing(ranks, 2, true), "\nexposed communication: 2 ms per step (mean of 7 measured steps)\n");
    memset(ranks[0].exposed_steps, 0, sizeof(ranks[0].exposed_steps)); /* a rank that could not measure */
    ck_assert_ptr_null(strstr(closing(ranks, 2, true), "exposed"));
}

TEST(an_end_by_a_signal_says_what_was_not_averaged)
{
    struct rank_view ranks[2] = {{.stage = RANK_STAGE_RANK, .gradient_count = 2, .parameter_count = 2},
                                 {.stage = RANK_STAGE_RANK, .gradient_count = 2, .parameter_count = 2}};
    ranks[0].gradient_work = ranks[1].gradient_work = 9; /* it may be accumulating */
    ck_assert_str_eq(unaveraged(ranks, 2), "");
    ranks[1].changed_count = 1;
    ck_assert_str_eq(unaveraged(ranks, 1), "");
    ck_assert_says(unaveraged(ranks, 2), "nothing was averaged: parameters of rank 1 changed without a DDP_STEP");
    ranks[0].step = ranks[1].step = 1;
    ck_assert_str_eq(unaveraged(ranks, 2), "");
    struct rank_view bare[2] = {{.stage = RANK_STAGE_RANK, .launch_count = 3}, {.stage = RANK_STAGE_RANK}};
    ck_assert_says(unaveraged(bare, 2), "nothing was averaged: rank 0 launched 3 kernels without an annotation");
    bare[0].unannotated = true;
    ck_assert_str_eq(unaveraged(bare, 2), "");
}

TEST(an_evaluation_hears_nothing)
{
    struct rank_view ranks[2] = {{.stage = RANK_STAGE_ENDED, .ended = true, .parameter_count = 2},
                                 {.stage = RANK_STAGE_ENDED, .ended = true, .parameter_count = 2}};
    ck_assert_str_eq(closing(ranks, 2, true), "");
    ranks[0].parameter_count = ranks[1].parameter_count = 0; /* it has asked for its rank, say */
    ck_assert_says(closing(ranks, 2, false), "no rank made a step (DDP_STEP): nothing was averaged");
    ranks[0].unannotated = ranks[1].unannotated = true;
    ck_assert_str_eq(closing(ranks, 2, false), "");
}

TEST(untrained_programs_hear_only_what_matters)
{
    struct rank_view ranks[2] = {{.ended = true}, {.ended = true}};
    ck_assert_str_eq(closing(ranks, 2, false), "");
    ck_assert_str_eq(closing(ranks, 1, true), "");
    ck_assert_says(closing(ranks, 2, true),
                   "no rank used CUDA under ddprun: nothing was averaged, 2 copies ran side by side");
    ranks[1].stage = RANK_STAGE_GATE;
    ck_assert_says(closing(ranks, 2, false), "nothing was averaged");
    ck_assert_str_eq(closing(ranks + 1, 1, true), "");
}

TEST(a_rank_that_follows_waits_for_the_one_that_it_followed)
{
    struct rank_view ranks[2] = {{.stage = RANK_STAGE_FAILED, .failure = "rank 1 is gone", .failure_follows = true},
                                 {TRAINING}};
    ck_assert(verdict_only_follows(ranks, 2));
    ranks[0].failure_by = RANK_MAY_FOLLOW;
    ck_assert(verdict_only_follows(ranks, 2));
    ranks[1].ended = true;
    ranks[1].signal = SIGSEGV;
    ck_assert(!verdict_only_follows(ranks, 2));
    ranks[0] = ranks[1] = (struct rank_view){TRAINING};
    ck_assert(!verdict_only_follows(ranks, 2));
}

TEST(a_rank_that_is_done_is_needed_only_by_ranks_that_wait_or_continue)
{
    static const struct {
        struct rank_view other;
        bool needed;
    } cases[] = {
        {{TRAINING}, false}, /* writes a checkpoint, say */
        {{TRAINING, .wait = RANK_WAIT_EXCHANGE}, true},
        {{TRAINING, .wait = RANK_WAIT_EXCHANGE, .wait_for = RANK_PLACE_END}, false},
        {{.stage = RANK_STAGE_TRAINING, .step = 8, .wait = RANK_WAIT_EXCHANGE, .wait_for = RANK_PLACE_END}, true},
        {{TRAINING, .wait = RANK_WAIT_COLLECTIVE}, true},
        {{TRAINING, .wait = RANK_WAIT_DEVICE}, true},
        {{.stage = RANK_STAGE_TRAINING, .step = 8}, true},
        {{.stage = RANK_STAGE_TRAINING, .step = 6}, false},
        {{.stage = RANK_STAGE_FAILED, .failure_follows = true}, true},
        {{DONE}, false},
        {{.stage = RANK_STAGE_GATE, .connected = true}, true}, /* it waits for all */
        {{TRAINING, .wait = RANK_WAIT_EXCHANGE, .ended = true}, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        struct rank_view views[3] = {{TRAINING}, {TRAINING, .ended = true}, cases[i].other};
        ck_assert_msg(verdict_is_needed(views, 3, 1, true) == cases[i].needed, "case %zu", i);
    }
}

TEST(the_first_wrong_step_of_any_rank_decides_from_where_to_continue)
{
    struct rank_view ranks[2] = {{TRAINING}, {TRAINING}};
    struct error error = {.text = "rank 1: wrong\ndetails"};
    uint64_t step = 99;
    ck_assert(!verdict_last_right(ranks, 2, &step));
    ck_assert(!verdict_add_last_right(ranks, 2, &error));
    ck_assert_str_eq(error.text, "rank 1: wrong\ndetails");
    ck_assert_uint_eq(step, 99);

    ranks[0].wrong_step = 7;
    ranks[1].wrong_step = 5;
    ck_assert(verdict_last_right(ranks, 2, &step));
    ck_assert_uint_eq(step, 4);
    ck_assert(verdict_add_last_right(ranks, 2, &error));
    ck_assert_str_eq(error.text, "rank 1: wrong. Step 4 is the last that is known to be right: continue from a "
                                 "checkpoint of step 4 or earlier\ndetails");

    error = (struct error){.text = "rank 1: wrong"};
    ranks[1].wrong_step = 1;
    ck_assert(verdict_add_last_right(ranks, 2, &error));
    ck_assert_str_eq(error.text, "rank 1: wrong. No step of this run is known to be right: continue from no "
                                 "checkpoint that it has saved");

    error = (struct error){.text = "rank 1: wrong"};
    ranks[0].step = ranks[1].step = 1; /* there is nothing that it can have saved */
    ck_assert(verdict_add_last_right(ranks, 2, &error));
    ck_assert_str_eq(error.text, "rank 1: wrong");
}

TEST(the_last_step_whose_buckets_a_rank_has_asked_for_is_wanted)
{
    struct rank_view ranks[2] = {{TRAINING}, {TRAINING}};
    ck_assert_uint_eq(verdict_buckets_wanted(ranks, 2), 0);
    ranks[1].buckets_asked = 5;
    ck_assert_uint_eq(verdict_buckets_wanted(ranks, 2), rank_wanted_pack(0, 5));
    ranks[0].buckets_asked = 7;
    ck_assert_uint_eq(verdict_buckets_wanted(ranks, 2), rank_wanted_pack(0, 7));
    ranks[1].generation = 1; /* of the second program, however far the first one came */
    ck_assert_uint_eq(verdict_buckets_wanted(ranks, 2), rank_wanted_pack(1, 5));
}

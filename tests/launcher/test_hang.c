/*
 * test_hang.c - a rank is named only if others wait for it while it makes no call; warned once, ended at the limit.
 *
 * Scenes are played on synthetic views and a synthetic clock, one look a second.
 */
#include "launcher/hang.h"

#include "base/protocol.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

enum { RANKS = 3 };

/* A job that is played: ranks that train, and what one look said. */
struct play {
    struct hang *hang;
    struct rank_view views[RANKS];
    uint64_t now_ns;
    struct problem problem;
    int culprit;
    int warnings;
};

static void
begin(struct play *play, unsigned warning_s, unsigned end_s)
{
    struct hang_limits limits = {warning_s * SECOND, end_s * SECOND};
    memset(play, 0, sizeof(*play));
    play->now_ns = 1000 * SECOND;
    play->hang = hang_new(RANKS, &limits, play->now_ns);
    for (int i = 0; i < RANKS; ++i) {
        struct rank_view *view = &play->views[i];
        *view = (struct rank_view){.stage = RANK_STAGE_TRAINING, .step = 7, .call_count = 100, .pid = 4000 + i};
        snprintf(view->host, sizeof(view->host), "h%d", i);
        snprintf(view->gpu, sizeof(view->gpu), "GPU %d", i);
    }
}

/* The rank's host or device begins to wait. */
static void
wait_for(struct play *play, int rank, enum rank_wait wait, const char *what)
{
    struct rank_view *view = &play->views[rank];
    view->wait = wait;
    ++view->wait_count;
    snprintf(view->wait_for, sizeof(view->wait_for), "%s", what);
}

/* Plays `seconds`; ranks of the mask `busy` make calls meanwhile. Returns the first outcome that is HANG_END, else the
 * worst. */
static enum hang_outcome
play_on(struct play *play, int seconds, unsigned busy)
{
    enum hang_outcome worst = HANG_NONE;
    for (int i = 0; i < seconds; ++i) {
        play->now_ns += SECOND;
        for (int r = 0; r < RANKS; ++r)
            play->views[r].call_count += busy >> r & 1;
        enum hang_outcome outcome = hang_look(play->hang, play->views, play->now_ns, &play->problem, &play->culprit);
        play->warnings += outcome == HANG_WARNING;
        worst = outcome > worst ? outcome : worst;
        if (outcome == HANG_END)
            break;
    }
    return worst;
}

START_TEST(nobody_waits_nobody_hangs)
{
    struct play play;
    begin(&play, 60, 600);
    ck_assert_int_eq(play_on(&play, 10000, 0), HANG_NONE);
    hang_free(play.hang);
}
END_TEST

START_TEST(who_makes_calls_does_not_hang)
{
    struct play play;
    begin(&play, 60, 600);
    wait_for(&play, 0, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    wait_for(&play, 2, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    ck_assert_int_eq(play_on(&play, 10000, 1 << 1), HANG_NONE);
    hang_free(play.hang);
}
END_TEST

START_TEST(a_rank_in_host_code_is_named_once_and_ended)
{
    struct play play;
    begin(&play, 60, 600);
    play_on(&play, 500, 0); /* long in host code, but nobody waits: that does not count */
    wait_for(&play, 0, RANK_WAIT_EXCHANGE, "DDP_MEAN (train.cu:1)");
    ck_assert_int_eq(play_on(&play, 50, 0), HANG_NONE);
    wait_for(&play, 2, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    ck_assert_int_eq(play_on(&play, 20, 0), HANG_WARNING);
    ck_assert_int_eq(play.culprit, 1);
    ck_assert_ptr_nonnull(strstr(play.problem.text, "rank 1 (host h1, process 4001, GPU 1) after step 7"));
    ck_assert_ptr_nonnull(strstr(play.problem.text, "rank 0 waits at DDP_MEAN (train.cu:1)"));
    ck_assert_ptr_nonnull(strstr(play.problem.text, "and 1 other too"));
    ck_assert_ptr_nonnull(strstr(play.problem.text, "checkpoint"));
    ck_assert_ptr_null(strchr(play.problem.text, '\n'));
    ck_assert_int_eq(play_on(&play, 1000, 0), HANG_END);
    ck_assert_int_eq(play.warnings, 1);
    ck_assert_int_eq(play.culprit, 1);
    ck_assert_int_eq(play.problem.exit_code, DDPRUN_EXIT_FAILURE);
    hang_free(play.hang);
}
END_TEST

/* A checkpoint: warned, goes on, and the next one is warned of again. */
START_TEST(a_rank_that_goes_on_is_forgiven)
{
    struct play play;
    begin(&play, 60, 600);
    for (int turn = 1; turn <= 3; ++turn) {
        wait_for(&play, 1, RANK_WAIT_EXCHANGE, "DDP_MEAN");
        wait_for(&play, 2, RANK_WAIT_EXCHANGE, "DDP_MEAN");
        ck_assert_int_eq(play_on(&play, 90, 0), HANG_WARNING);
        ck_assert_int_eq(play.warnings, turn);
        play.views[1].wait = play.views[2].wait = RANK_WAIT_NONE;
        ck_assert_int_eq(play_on(&play, 5, 7), HANG_NONE);
    }
    hang_free(play.hang);
}
END_TEST

START_TEST(limits_of_zero_are_never)
{
    struct play play;
    begin(&play, 0, 0);
    wait_for(&play, 0, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    ck_assert_int_eq(play_on(&play, 20000, 0), HANG_NONE);
    hang_free(play.hang);
    begin(&play, 60, 0);
    wait_for(&play, 0, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    ck_assert_int_eq(play_on(&play, 20000, 0), HANG_WARNING);
    ck_assert_int_eq(play.warnings, 1);
    hang_free(play.hang);
}
END_TEST

static const struct {
    struct rank_view view;
    const char *says;
} doings[] = {
    {{.stage = RANK_STAGE_TRAINING, .call = "cuStreamSynchronize", .in_call = true, .call_ns = 73 * SECOND},
     "it is in cuStreamSynchronize (73.0 s)"},
    {{.stage = RANK_STAGE_TRAINING, .call = "cuMemcpyDtoH_v2", .call_ns = 73 * SECOND},
     "it computes or waits on the host, outside CUDA; its last call was cuMemcpyDtoH_v2, 73.0 s ago"},
    {{.stage = RANK_STAGE_TRAINING,
      .call = "cuCtxSynchronize",
      .in_call = true,
      .wait = RANK_WAIT_DEVICE,
      .wait_for = "bucket 2 of step 8",
      .kernel = "spin"},
     "it hangs in a kernel, it seems: its device does not come to the end of what was enqueued before bucket 2 of step "
     "8, last kernel launched: `spin`"},
    {{.stage = RANK_STAGE_TRAINING, .stopped = true, .pid = 7},
     "it is stopped (SIGSTOP, or a debugger); `kill -CONT 7`"},
    {{.stage = RANK_STAGE_GATE}, "it has not used CUDA yet"},
};

START_TEST(what_the_culprit_does_is_said)
{
    struct play play;
    begin(&play, 60, 0);
    play.views[2] = doings[_i].view;
    wait_for(&play, 0, RANK_WAIT_COLLECTIVE, "bucket 2 of step 8");
    wait_for(&play, 1, RANK_WAIT_COLLECTIVE, "bucket 2 of step 8");
    ck_assert_int_eq(play_on(&play, 61, 0), HANG_WARNING);
    ck_assert_int_eq(play.culprit, 2);
    ck_assert_msg(strstr(play.problem.text, doings[_i].says) != NULL, "%s", play.problem.text);
    hang_free(play.hang);
}
END_TEST

/* All wait, nobody is behind: the network. It is nobody's fault, and still said and ended. */
START_TEST(a_network_that_stands_still_is_named)
{
    struct play play;
    begin(&play, 60, 600);
    for (int i = 0; i < RANKS; ++i)
        wait_for(&play, i, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    ck_assert_int_eq(play_on(&play, 599, 0), HANG_WARNING);
    ck_assert_int_eq(play.warnings, 1);
    ck_assert_int_eq(play.culprit, -1);
    ck_assert_ptr_nonnull(strstr(play.problem.text, "all ranks wait"));
    ck_assert_int_eq(play_on(&play, 5, 0), HANG_END);
    hang_free(play.hang);
}
END_TEST

/* Whoever has ended is judged elsewhere, and is nobody to wait for. */
START_TEST(ranks_that_ended_do_not_hang)
{
    struct play play;
    begin(&play, 60, 600);
    play.views[1].ended = true;
    wait_for(&play, 0, RANK_WAIT_EXCHANGE, "the end of the program");
    wait_for(&play, 2, RANK_WAIT_EXCHANGE, "the end of the program");
    ck_assert_int_eq(play_on(&play, 1000, 0), HANG_NONE);
    hang_free(play.hang);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("hang");
    TCase *tests = tcase_create("hang");
    tcase_add_test(tests, nobody_waits_nobody_hangs);
    tcase_add_test(tests, who_makes_calls_does_not_hang);
    tcase_add_test(tests, a_rank_in_host_code_is_named_once_and_ended);
    tcase_add_test(tests, a_rank_that_goes_on_is_forgiven);
    tcase_add_test(tests, limits_of_zero_are_never);
    tcase_add_loop_test(tests, what_the_culprit_does_is_said, 0, (int)(sizeof(doings) / sizeof(doings[0])));
    tcase_add_test(tests, a_network_that_stands_still_is_named);
    tcase_add_test(tests, ranks_that_ended_do_not_hang);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

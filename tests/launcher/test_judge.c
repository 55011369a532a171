/*
 * test_judge.c - a rank that exited cleanly has left early only when others have needed it for a second without a
 * break; a failure that follows from another is not the reason before that one had its time to be known; and a job
 * whose ranks have all ended well is over.
 *
 * Scenes are played on synthetic views and a synthetic clock.
 */
#include "launcher/watch/hang.h"
#include "launcher/watch/verdict.h"

#include "base/protocol.h"

#include "tests/lib/test.h"

#define MS UINT64_C(1000000)

enum { RANKS = 3 };

static struct judge *judge;
static struct rank_view views[RANKS];
static uint64_t now_ns;
static bool is_starved; /* rank 0 */
static struct error error;

static void
end(void)
{
    judge_free(judge);
}

static void
begin(void)
{
    static const struct hang_limits limits = {60000 * MS, 120000 * MS};
    now_ns = 5000 * MS;
    is_starved = false;
    judge = judge_new(RANKS, &limits, now_ns);
    for (int i = 0; i < RANKS; ++i)
        views[i] = (struct rank_view){.stage = RANK_STAGE_TRAINING, .step = 5, .pid = 4000 + i, .watch_ns = MS};
}

/* What the ends of ranks say `ms` later. */
static enum judgement
ends_after(uint64_t ms)
{
    now_ns += ms * MS;
    views[0].watch_ns += is_starved ? 0 : ms * MS;
    return judge_ends(judge, views, now_ns, &error);
}

static void
end_rank(int rank, int exit_code, int signal)
{
    views[rank].ended = true;
    views[rank].order = 1;
    views[rank].exit_code = exit_code;
    views[rank].signal = signal;
}

static void
wait_for_all(int rank, bool waits)
{
    views[rank].wait = waits ? RANK_WAIT_EXCHANGE : RANK_WAIT_NONE;
    ++views[rank].wait_count;
}

TEST_GROUP(judge, .setup = begin, .teardown = end);

TEST(a_rank_that_is_needed_for_a_second_left_early)
{
    end_rank(1, 0, 0);
    ck_assert_int_eq(ends_after(0), JUDGED_GOES_ON);
    wait_for_all(0, true);
    ck_assert_int_eq(ends_after(100), JUDGED_GOES_ON);
    ck_assert_int_eq(ends_after(999), JUDGED_GOES_ON);
    ck_assert_int_eq(ends_after(1), JUDGED_FAILED);
    ck_assert_int_eq(error.rank, 1);
}

TEST(by_plan_rank_0_may_end_as_others_did)
{
    end_rank(1, 0, 15);
    ck_assert_int_eq(ends_after(0), JUDGED_FAILED);
    end();
    begin();
    views[0].batch_count = 15;
    end_rank(1, 0, 15);
    ck_assert_int_eq(ends_after(0), JUDGED_IN_DOUBT);
    ck_assert_int_eq(ends_after(59999), JUDGED_IN_DOUBT); /* it saves */
    ck_assert_int_eq(ends_after(1), JUDGED_FAILED);
    end();
    begin();
    views[0].batch_count = 15;
    end_rank(1, 0, 15);
    views[0].wait = RANK_WAIT_DEVICE;     /* what the other has sent arrives */
    views[2].wait = RANK_WAIT_COLLECTIVE; /* it saves nothing */
    ck_assert_int_eq(ends_after(0), JUDGED_IN_DOUBT);
    views[0].wait = RANK_WAIT_COLLECTIVE; /* so its engine has seen it last: the other had its part in that, or not */
    ck_assert_int_eq(ends_after(0), JUDGED_IN_DOUBT);
    ck_assert_int_eq(ends_after(999), JUDGED_IN_DOUBT);
    wait_for_all(0, false);
    ck_assert_int_eq(ends_after(1), JUDGED_IN_DOUBT);
    wait_for_all(0, true); /* it misses the other */
    ck_assert_int_eq(ends_after(0), JUDGED_IN_DOUBT);
    is_starved = true;
    ck_assert_int_eq(ends_after(10000), JUDGED_IN_DOUBT);
    is_starved = false;
    ck_assert_int_eq(ends_after(999), JUDGED_IN_DOUBT);
    ck_assert_int_eq(ends_after(1), JUDGED_FAILED);
    ck_assert_int_eq(error.rank, 1);
    end();
    begin();
    views[0].batch_count = 15;
    end_rank(1, 0, 9); /* from outside */
    ck_assert_int_eq(ends_after(0), JUDGED_FAILED);
}

TEST(a_break_begins_the_second_anew)
{
    end_rank(1, 0, 0);
    for (int i = 0; i < 10; ++i) {
        wait_for_all(0, true);
        ck_assert_int_eq(ends_after(1), JUDGED_GOES_ON);
        ck_assert_int_eq(ends_after(999), JUDGED_GOES_ON);
        wait_for_all(0, false);
        ck_assert_int_eq(ends_after(1), JUDGED_GOES_ON);
    }
}

TEST(all_that_ended_well_is_over)
{
    for (int i = 0; i < RANKS; ++i) {
        ck_assert_int_eq(ends_after(100000), JUDGED_GOES_ON);
        views[i].stage = RANK_STAGE_ENDED;
        end_rank(i, 0, 0);
    }
    ck_assert_int_eq(ends_after(0), JUDGED_OVER);
}

static void
fail_because_of_another(int rank)
{
    views[rank].stage = RANK_STAGE_FAILED;
    views[rank].failure_follows = true;
    snprintf(views[rank].failure, sizeof(views[rank].failure), "a connection was closed");
}

TEST(the_cause_has_its_time_to_be_known)
{
    fail_because_of_another(2);
    ck_assert_int_eq(ends_after(0), JUDGED_IN_DOUBT);
    ck_assert_int_eq(ends_after(1000), JUDGED_IN_DOUBT);
    end_rank(1, 0, 9);
    ck_assert_int_eq(ends_after(0), JUDGED_FAILED);
    ck_assert_int_eq(error.rank, 1);
    ck_assert_int_eq(error.exit_code, 128 + 9);
}

TEST(without_a_cause_what_follows_is_the_reason)
{
    fail_because_of_another(2);
    ck_assert_int_eq(ends_after(0), JUDGED_IN_DOUBT);
    ck_assert_int_eq(ends_after(1499), JUDGED_IN_DOUBT);
    ck_assert_int_eq(ends_after(1), JUDGED_FAILED);
    ck_assert_int_eq(error.rank, 2);
}

TEST(the_rank_that_is_missing_is_named_before_one_that_waited_for_it)
{
    views[0].wait = views[2].wait = RANK_WAIT_COLLECTIVE;
    ck_assert_int_eq(judge_running(judge, views, now_ns, &error), JUDGED_GOES_ON);
    views[2].stage = RANK_STAGE_FAILED;
    snprintf(views[2].failure, sizeof(views[2].failure), "bucket 0 of step 6 has waited 5 s for the other ranks");
    ck_assert_int_eq(ends_after(5000), JUDGED_FAILED);
    ck_assert_int_eq(error.rank, 1);
    ck_assert_str_eq(error.text,
                     "rank 1 (process 4001) after step 5 keeps the others waiting: it runs or waits in host "
                     "code; rank 2 after step 5: bucket 0 of step 6 has waited 5 s for the other ranks");
}

/* The engine looks at collectives now and then, and steps go on meanwhile. */
TEST(no_collective_of_a_step_that_is_over_is_told)
{
    char text[RANK_WORDS_BYTES];
    views[1].wait = RANK_WAIT_DEVICE;
    views[1].wait_step = 4;
    views[1].wait_ns = 20 * MS;
    snprintf(views[1].wait_for, sizeof(views[1].wait_for), "bucket 0 of step 4");
    rank_describe_activity(&views[1], text);
    ck_assert_ptr_null(strstr(text, "bucket"));
    views[1].wait_ns = 2000 * MS; /* hosts run ahead of their devices */
    rank_describe_activity(&views[1], text);
    ck_assert_str_eq(text, "its GPU has not finished the work before bucket 0 of step 4");
}

TEST(who_trains_unseen_fails_the_job)
{
    ck_assert_int_eq(judge_running(judge, views, now_ns, &error), JUDGED_GOES_ON);
    views[1].preload_suspect = 4711;
    ck_assert_int_eq(judge_running(judge, views, now_ns, &error), JUDGED_FAILED);
    ck_assert_says(error.text, "rank 1 uses the CUDA driver in process 4711");
}

/* A second at a time, as a supervisor looks: a longer time in which the supervisor did not look does not count. */
TEST(who_keeps_others_waiting_is_named_then_ended)
{
    wait_for_all(0, true);
    wait_for_all(2, true);
    for (int second = 0; second <= 121; ++second, now_ns += 1000 * MS) {
        enum judgement judgement = judge_running(judge, views, now_ns, &error);
        ck_assert_int_eq(judgement, second == 60 ? JUDGED_WARNING : (second < 120 ? JUDGED_GOES_ON : JUDGED_FAILED));
        if (judgement != JUDGED_GOES_ON)
            ck_assert_int_eq(error.rank, 1);
    }
    ck_assert_int_eq(judge_suspect(judge, views, now_ns), 1);
}

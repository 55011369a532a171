/*
 * test_hang.c - a rank is named only if others wait for it while it makes no call; warned once, ended at the limit.
 * Where no rank waits, devices that keep all ranks waiting are warned about, and a rank that does not exit is ended.
 *
 * Scenes are played on synthetic views and a synthetic clock, one look a second.
 */
#include "launcher/watch/hang.h"

#include "base/protocol.h"

#include "tests/lib/test.h"

#define SECOND UINT64_C(1000000000)

enum { RANKS = 3 };

/* A job that is played: ranks that train, and what one look said. */
static struct {
    struct hang *hang;
    struct rank_view views[RANKS];
    uint64_t now_ns;
    struct error error;
    int warnings;
    unsigned frozen; /* mask of ranks of which nothing new is seen */
} play;

static void
end_play(void)
{
    if (play.hang != NULL)
        hang_free(play.hang);
    play.hang = NULL;
}

/* Ends what was played before. */
static void
begin(unsigned warning_s, unsigned end_s)
{
    struct hang_limits limits = {warning_s * SECOND, end_s * SECOND};
    end_play();
    memset(&play, 0, sizeof(play));
    play.now_ns = 1000 * SECOND;
    play.hang = hang_new(RANKS, &limits, play.now_ns);
    for (int i = 0; i < RANKS; ++i) {
        struct rank_view *view = &play.views[i];
        *view = (struct rank_view){.stage = RANK_STAGE_TRAINING, .step = 7, .call_count = 100, .pid = 4000 + i};
        snprintf(view->host, sizeof(view->host), "h%d", i);
        snprintf(view->gpu, sizeof(view->gpu), "GPU %d", i);
    }
}

static void
begin_usual(void)
{
    begin(60, 600);
}

TEST_GROUP(plays, .setup = begin_usual, .teardown = end_play);

/* The rank's host or device begins to wait. */
static void
wait_for(int rank, enum rank_wait wait, const char *what)
{
    struct rank_view *view = &play.views[rank];
    view->wait = wait;
    ++view->wait_count;
    snprintf(view->wait_for, sizeof(view->wait_for), "%s", what);
}

/* The ranks of the mask begin to wait for one bucket. */
static void
wait_for_bucket(unsigned ranks)
{
    for (int r = 0; r < RANKS; ++r) {
        if ((ranks >> r & 1) != 0)
            wait_for(r, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    }
}

/* Plays `seconds`; ranks of the mask `busy` make calls meanwhile. Returns the first outcome that is HANG_END, else the
 * worst. */
static enum hang_outcome
play_on(int seconds, unsigned busy)
{
    enum hang_outcome worst = HANG_NONE;
    for (int i = 0; i < seconds; ++i) {
        play.now_ns += SECOND;
        for (int r = 0; r < RANKS; ++r)
            play.views[r].call_count += busy >> r & 1;
        for (int r = 0; r < RANKS; ++r)
            play.views[r].watch_ns += (play.frozen >> r & 1) == 0;
        enum hang_outcome outcome = hang_look(play.hang, play.views, play.now_ns, &play.error);
        play.warnings += outcome == HANG_WARNING;
        worst = outcome > worst ? outcome : worst;
        if (outcome == HANG_END)
            break;
    }
    return worst;
}

/* Plays on to an outcome that names this rank and says these texts. */
#define EXPECT(seconds, busy, outcome, culprit, ...)       \
    do {                                                   \
        ck_assert_int_eq(play_on(seconds, busy), outcome); \
        ck_assert_int_eq(play.error.rank, culprit);        \
        ck_assert_says(play.error.text, __VA_ARGS__);      \
    } while (0)

TEST(where_no_rank_waits_no_rank_hangs)
{
    ck_assert_int_eq(play_on(10000, 0), HANG_NONE);
}

TEST(who_makes_calls_does_not_hang)
{
    wait_for_bucket(1 << 0 | 1 << 2);
    ck_assert_int_eq(play_on(10000, 1 << 1), HANG_NONE);
}

TEST(a_rank_in_host_code_is_named_once_and_ended)
{
    play_on(500, 0); /* long in host code, but no rank waits: that does not count */
    wait_for(0, RANK_WAIT_EXCHANGE, "DDP_MEAN (train.cu:1)");
    ck_assert_int_eq(play_on(50, 0), HANG_NONE);
    wait_for(2, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    EXPECT(20, 0, HANG_WARNING, 1, "rank 1 (host h1, process 4001, GPU 1) after step 7",
           "rank 0 waits at DDP_MEAN (train.cu:1)", "and 1 other too", "checkpoint");
    ck_assert_ptr_null(strchr(play.error.text, '\n'));
    EXPECT(1000, 0, HANG_END, 1, "rank 1");
    ck_assert_int_eq(play.warnings, 1);
    ck_assert_int_eq(play.error.exit_code, DDPRUN_EXIT_FAILURE);
}

/* A checkpoint: the rank is warned about, continues, and is warned about again at the next one. */
TEST(a_rank_that_continues_is_forgiven)
{
    for (int turn = 1; turn <= 3; ++turn) {
        wait_for(1, RANK_WAIT_EXCHANGE, "DDP_MEAN");
        wait_for(2, RANK_WAIT_EXCHANGE, "DDP_MEAN");
        ck_assert_int_eq(play_on(90, 0), HANG_WARNING);
        ck_assert_int_eq(play.warnings, turn);
        play.views[1].wait = play.views[2].wait = RANK_WAIT_NONE;
        ck_assert_int_eq(play_on(5, 7), HANG_NONE);
    }
}

TEST(limits_of_zero_are_never)
{
    begin(0, 0);
    wait_for(0, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    ck_assert_int_eq(play_on(20000, 0), HANG_NONE);
    begin(60, 0);
    wait_for(0, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    ck_assert_int_eq(play_on(20000, 0), HANG_WARNING);
    ck_assert_int_eq(play.warnings, 1);
}

static const struct {
    struct rank_view view;
    const char *says;
    bool may_be_busy; /* it is said that this is not a fault yet */
} doings[] = {
    {{.stage = RANK_STAGE_TRAINING, .call = "cuStreamSynchronize", .in_call = true, .call_ns = 73 * SECOND},
     "it has waited in cuStreamSynchronize for its GPU for 73.0 s;",
     false},
    {{.stage = RANK_STAGE_TRAINING, .call = "cuMemAlloc_v2", .in_call = true, .call_ns = 73 * SECOND},
     "it has been in cuMemAlloc_v2 for 73.0 s",
     false},
    {{.stage = RANK_STAGE_TRAINING, .call = "cuMemcpyDtoH_v2", .call_ns = 73 * SECOND},
     "it runs or waits in host code; its last CUDA call was cuMemcpyDtoH_v2, 73.0 s ago",
     true},
    {{.stage = RANK_STAGE_TRAINING,
      .call = "cuCtxSynchronize",
      .in_call = true,
      .wait = RANK_WAIT_DEVICE,
      .wait_for = "bucket 2 of step 8",
      .wait_ns = 73 * SECOND,
      .kernel = "update"},
     ": its GPU has not finished the work before bucket 2 of step 8; last kernel launched: `update`; rank ",
     false},
    {{.stage = RANK_STAGE_TRAINING, .stopped = true, .pid = 7},
     "it is stopped (SIGSTOP, or a debugger); `kill -CONT 7`",
     false},
    {{.stage = RANK_STAGE_GATE}, "it has not used CUDA yet", true},
};

TABLE_TEST(what_the_culprit_does_is_said, doings)
{
    play.views[2] = doings[_i].view;
    wait_for(0, RANK_WAIT_COLLECTIVE, "bucket 2 of step 8");
    wait_for(1, RANK_WAIT_COLLECTIVE, "bucket 2 of step 8");
    EXPECT(61, 0, HANG_WARNING, 2, doings[_i].says);
    ck_assert_int_eq(strstr(play.error.text, "not a fault") != NULL, doings[_i].may_be_busy);
}

/* Its record says what it did before: that it waits, too. */
TEST(a_stopped_rank_does_not_wait)
{
    wait_for_bucket(7);
    play.views[1].stopped = true;
    EXPECT(61, 0, HANG_WARNING, 1, "rank 1");
}

/* One whose record is not believed any more, because its watch thread is held up, is not blamed for the time before. */
TEST(a_rank_that_waits_no_more_has_gone_on)
{
    wait_for_bucket(1 << 0 | 1 << 1);
    EXPECT(70, 0, HANG_WARNING, 2, "rank 2");
    play.views[1].wait = RANK_WAIT_NONE;
    ck_assert_int_eq(play_on(500, 0), HANG_NONE);
    EXPECT(100, 0, HANG_END, 2, "rank 2");
}

/* All ranks wait, none is behind: the network stands still. No rank is blamed; the hang is still reported, and the job
 * ended. */
TEST(a_network_that_stands_still_is_named)
{
    wait_for_bucket(7);
    EXPECT(599, 0, HANG_WARNING, -1, "all ranks wait");
    ck_assert_int_eq(play.warnings, 1);
    ck_assert_int_eq(play_on(5, 0), HANG_END);
}

/* What a silent host said last is old: it is shown with its age, and the others are not said to be beside it. */
TEST(a_silent_host_is_shown_with_its_age)
{
    for (int i = 0; i < RANKS; ++i)
        wait_for(i, RANK_WAIT_COLLECTIVE, i == 2 ? "bucket 0 of step 8" : "bucket 0 of step 9");
    ck_assert_int_eq(play_on(10, 0), HANG_NONE);
    play.frozen = 1 << 2;
    EXPECT(55, 0, HANG_WARNING, 2,
           "rank 2 (host h2, process 4002, GPU 2) after step 7 has not reported for 51 s; in its last report it waits "
           "for bucket 0 of step 8");
    EXPECT(540, 0, HANG_END, 2, "after step 7 has not reported for");
}

/* A rank that has ended is judged elsewhere, and no rank waits for it. */
TEST(ranks_that_ended_do_not_hang)
{
    play.views[1].ended = true;
    wait_for(0, RANK_WAIT_EXCHANGE, "the end of the program");
    wait_for(2, RANK_WAIT_EXCHANGE, "the end of the program");
    ck_assert_int_eq(play_on(1000, 0), HANG_NONE);
}

/* Ranks that have reached different places wait for ever: that ends the job at once, naming both counts of steps. */
TEST(different_places_are_named)
{
    play.views[0].step = play.views[2].step = 8;
    wait_for_bucket(1 << 0 | 1 << 2);
    wait_for(1, RANK_WAIT_EXCHANGE, "the end of the program");
    ck_assert_int_eq(play_on(8, 0), HANG_NONE); /* what it waits to hear may be on its way */
    EXPECT(10, 0, HANG_END, 1,
           "rank 1 (host h1, process 4001, GPU 1) waits at the end of the program after 7 steps, while rank 0 (host "
           "h0, process 4000, GPU 0), with 8 steps launched, waits for it in bucket 0 of step 8");

    for (uint64_t made = 7; made <= 8; ++made) {
        begin(60, 600); /* a bucket of step 8 is in flight, which only a rank that made step 8 will send */
        wait_for(0, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
        play.views[0].wait_step = 8;
        play.views[1].step = made;
        wait_for(1, RANK_WAIT_EXCHANGE, RANK_PLACE_END);
        ck_assert_int_eq(play_on(5, 1 << 2), made < 8 ? HANG_END : HANG_NONE);
    }

    begin(60, 600); /* its call 4 of DDP_REDUCE, which the other has made without a comparison */
    wait_for(0, RANK_WAIT_COLLECTIVE, "DDP_REDUCE (a.cu:1), 3 int32, sum");
    wait_for(1, RANK_WAIT_EXCHANGE, "DDP_REDUCE (a.cu:2), 3 int32, sum");
    play.views[1].reduce_count = 4;
    play.views[0].reduce_count = 3; /* the call before: in flight */
    ck_assert_int_eq(play_on(20, 1 << 2), HANG_NONE);
    play.views[0].reduce_count = 5;
    EXPECT(20, 1 << 2, HANG_END, 1, "rank 1 (host h1, process 4001, GPU 1) waits at DDP_REDUCE (a.cu:2), 3 ",
           "waits for it in DDP_REDUCE (a.cu:1), 3 int32, sum");

    begin(60, 600); /* all buckets of the step are launched, and the message is none of its DDP_STEP */
    wait_for(0, RANK_WAIT_COLLECTIVE, RANK_WAIT_COMPARISON " of step 8");
    wait_for(1, RANK_WAIT_EXCHANGE, "DDP_MEAN");
    EXPECT(20, 1 << 2, HANG_END, 1, "waits at DDP_MEAN", "waits for it in " RANK_WAIT_COMPARISON " of step 8");

    begin(60, 600); /* it has a step less, and its work shows which */
    wait_for(0, RANK_WAIT_COLLECTIVE, RANK_WAIT_COMPARISON " of step 8");
    wait_for(1, RANK_WAIT_EXCHANGE, RANK_PLACE_END);
    play.views[1].left_out_step = 5;
    EXPECT(20, 1 << 2, HANG_END, 1, "waits at " RANK_PLACE_END,
           "DDP_STEP was left out on rank 1: its work before its DDP_STEP number 5 is that of two steps");

    begin(60, 600); /* the same step: in flight */
    wait_for(0, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    wait_for(1, RANK_WAIT_EXCHANGE, "DDP_MEAN");
    ck_assert_int_eq(play_on(10, 1 << 2), HANG_NONE);

    begin(1, 3); /* before it is sure: where the job ends in any case, it is the reason all the same */
    play.views[0].step = play.views[2].step = 8;
    wait_for_bucket(1 << 0 | 1 << 2);
    wait_for(1, RANK_WAIT_EXCHANGE, "DDP_MEAN");
    ck_assert_int_eq(play_on(2, 0), HANG_WARNING);
    EXPECT(2, 0, HANG_END, 1, " waits at DDP_MEAN after 7 steps, while rank 0 ");

    begin(0, 3); /* in the same step it may also be the network: both are said */
    wait_for_bucket(1 << 0 | 1 << 2);
    wait_for(1, RANK_WAIT_EXCHANGE, "DDP_MEAN");
    EXPECT(5, 0, HANG_END, -1, "at different places: rank 0 waits for bucket 0 of step 8 ",
           ", rank 1 waits at DDP_MEAN ");

    begin(0, 3); /* all on their devices */
    wait_for_bucket(1 << 0 | 1 << 2);
    wait_for(1, RANK_WAIT_COLLECTIVE, "DDP_REDUCE (train.cu:9), 4 float32, sum");
    EXPECT(5, 0, HANG_END, -1, "at different places: rank 0 waits for bucket 0 of step 8 ",
           ", rank 1 waits for DDP_REDUCE ");
}

/* A process that is stopped in an exchange, or whose host is not heard, may have got what it waits for: what it said
 * before counts for nothing, not even in the moment in which it continues. */
TEST(an_old_word_is_no_different_place)
{
    wait_for(1, RANK_WAIT_EXCHANGE, "DDP_MEAN"); /* for a slow rank 0 */
    ck_assert_int_eq(play_on(2, 1), HANG_NONE);
    play.frozen = 1 << 1;
    play.views[0].step = 8; /* the exchange took place */
    wait_for(0, RANK_WAIT_COLLECTIVE, "bucket 0 of step 9");
    ck_assert_int_eq(play_on(20, 1 << 2), HANG_NONE);
    play.frozen = 0;
    ck_assert_int_eq(play_on(1, 1 << 2), HANG_NONE);
    ck_assert_int_eq(play_on(20, 1 << 2), HANG_END); /* it did not */
}

/* Rank 1 was heard of last before the others began to wait for rank 2, which is stopped: it may well wait, too. */
TEST(what_is_not_known_yet_blames_no_rank)
{
    begin(1, 3);
    play_on(1, 7);
    play.frozen = 1 << 1;
    wait_for(0, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    play.views[2].stopped = true;
    ck_assert_int_eq(play_on(1, 1 << 2), HANG_NONE); /* what it did before */
    EXPECT(1, 0, HANG_WARNING, 2, "rank 2");
    play.frozen = 0;
    wait_for(1, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    EXPECT(3, 0, HANG_END, 2, "rank 2");
    ck_assert_int_eq(play.warnings, 1);
}

/* But one that is never heard of again is behind. */
TEST(who_falls_silent_is_blamed)
{
    play_on(1, 7);
    play.frozen = 1 << 1;
    wait_for_bucket(1 << 0 | 1 << 2);
    EXPECT(62, 0, HANG_WARNING, 1, "rank 1");
}

static void
be_in_call(int rank, const char *call)
{
    snprintf(play.views[rank].call, sizeof(play.views[rank].call), "%s", call);
    play.views[rank].in_call = true;
}

/* A kernel that takes long on all ranks cannot be distinguished from one that does not end. */
TEST(devices_that_keep_all_waiting_are_warned_of_and_never_ended)
{
    play.views[2].ended = true;
    wait_for(0, RANK_WAIT_DEVICE, "bucket 0 of step 8");
    be_in_call(1, "cuCtxSynchronize");
    ck_assert_int_eq(play_on(50, 1 << 0), HANG_NONE);
    ck_assert_int_eq(play_on(59, 0), HANG_NONE); /* since the last of them continued */
    EXPECT(5000, 0, HANG_WARNING, 0,
           "no rank has made a CUDA call for 60 s, and all wait for their own devices: rank 0 (host h0, process 4000, "
           "GPU 0) after step 7: its GPU has not finished the work before bucket 0 of step 8");
    ck_assert_int_eq(play.warnings, 1);
    ck_assert_ptr_null(strchr(play.error.text, '\n'));
    ck_assert_int_eq(play_on(100, 7), HANG_NONE); /* gone on, and the same again */
    ck_assert_int_eq(play_on(100, 0), HANG_WARNING);
}

/* One that computes on the host, is stopped, or has exited its program under a script may come back. */
LOOP_TEST(devices_are_not_warned_about_while_a_rank_may_be_at_work, 0, 3)
{
    for (int i = 0; i < RANKS; ++i)
        be_in_call(i, "cuCtxSynchronize");
    if (_i == 0)
        play.views[1].in_call = false;
    else if (_i == 1)
        play.views[1].stopped = true;
    else
        play.views[1] = (struct rank_view){.stage = RANK_STAGE_ENDED, .step = 7};
    ck_assert_int_eq(play_on(5000, 0), HANG_NONE);
}

/* No rank can continue another one: a batch system has stopped all of them. Those that have ended do not count. */
TEST(ranks_that_are_all_stopped_are_named_and_ended)
{
    play.views[0].ended = true;
    play.views[1].stopped = play.views[2].stopped = true;
    ck_assert_int_eq(play_on(59, 0), HANG_NONE);
    EXPECT(2, 0, HANG_WARNING, 1,
           "all ranks that have not ended have been stopped for 60 s; rank 1 (host h1, process 4001",
           "it is stopped (SIGSTOP, or a debugger); `kill -CONT 4001` lets it continue; the job continues, unless this "
           "lasts 600 s");
    play.views[2].stopped = false;
    ck_assert_int_eq(play_on(5000, 0), HANG_NONE);
    play.views[2].stopped = true;
    EXPECT(602, 0, HANG_END, 1, "and the job ends", "--hang-timeout allows 600 s");
}

static void
exit_rank(int rank)
{
    play.views[rank].stage = RANK_STAGE_ENDED;
    play.views[rank].exiting = true;
}

TEST(a_rank_that_does_not_exit_is_named_and_ended)
{
    exit_rank(1);
    ck_assert_int_eq(play_on(5000, 0), HANG_NONE); /* the others are at work */
    play.views[0].ended = true;
    exit_rank(2);
    ck_assert_int_eq(play_on(59, 0), HANG_NONE);
    EXPECT(10, 0, HANG_WARNING, 1,
           "rank 1 (host h1, process 4001, GPU 1) after step 7 has ended its program cleanly, but its process has not "
           "exited for 60 s:",
           "1 other has not exited, either; the job continues, unless this lasts 600 s");
    play.views[2].ended = true;
    EXPECT(1000, 0, HANG_END, 1, "and the job ends", "all others have ended; --hang-timeout allows 600 s");
    ck_assert_int_eq(play.warnings, 1);
}

/* Idle in their programs: for as long as the last of them, and only if no rank may be at work. */
TEST(ranks_that_are_all_idle_are_named_and_ended)
{
    exit_rank(0);
    play.views[1].idle_ns = play.views[2].idle_ns = 5000 * SECOND;
    play.views[2].idle_ns = 30 * SECOND;
    ck_assert_int_eq(play_on(100, 0), HANG_NONE);
    play.views[2].idle_ns = 0; /* it is not, any more */
    ck_assert_int_eq(play_on(1000, 0), HANG_NONE);
    play.views[2].idle_ns = 61 * SECOND;
    EXPECT(1, 0, HANG_WARNING, 1,
           "rank 1 (host h1, process 4001, GPU 1) after step 7 has made no CUDA call and used no CPU time for 61 s: "
           "its threads wait for each other",
           "2 others have not continued, either; the job continues, unless this lasts 600 s");
    play.views[2].idle_ns = 601 * SECOND;
    EXPECT(1, 0, HANG_END, 1, "and the job ends");
    begin(60, 600);
    for (int i = 0; i < RANKS; ++i)
        play.views[i].idle_ns = 5000 * SECOND; /* of which a call, long ago, ended the most */
    ck_assert_int_eq(play_on(59, 0), HANG_NONE);
    ck_assert_int_eq(play_on(5000, 1), HANG_NONE);
    play.views[2].stopped = true;
    ck_assert_int_eq(play_on(5000, 0), HANG_NONE);
}

/* A script that continues after its program, for however long: a copy of the results, another program. */
TEST(a_script_that_continues_is_left_alone)
{
    for (int i = 0; i < RANKS; ++i) {
        exit_rank(i);
        play.views[i].ended = i != 1;
    }
    play.views[1].exiting = false;
    ck_assert_int_eq(play_on(10000, 0), HANG_NONE);
}

/* Ctrl-Z stops the launcher and all ranks: that time counts against no rank. */
TEST(a_launcher_that_was_stopped_blames_no_rank)
{
    wait_for(0, RANK_WAIT_COLLECTIVE, "bucket 0 of step 8");
    ck_assert_int_eq(play_on(10, 0), HANG_NONE);
    play.now_ns += 100000 * SECOND;
    ck_assert_int_eq(play_on(40, 0), HANG_NONE);
    ck_assert_int_eq(play_on(30, 0), HANG_WARNING);
}

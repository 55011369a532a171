/*
 * test_grace.c - after a signal: who still works keeps its time, who waits for a rank that has left is ended, and the
 * lines about both name ranks, steps and the recipe.
 */
#include "launcher/watch/grace.h"

#include "base/protocol.h"
#include "tests/lib/test.h"

/* Of a view. */
#define AFTER(number) .stage = RANK_STAGE_TRAINING, .step = (number), .connected = true, .pid = 12
#define DONE(number)  .stage = RANK_STAGE_ENDED, .step = (number), .ended = true
#define AT_END        .wait = RANK_WAIT_EXCHANGE, .wait_for = RANK_PLACE_END
/* Its device waits in a collective of that step, its host for the device. */
#define IN_BUCKET(number) \
    .wait = RANK_WAIT_COLLECTIVE, .wait_for = "bucket 0 of step", .wait_step = (number), .in_call = true

static const struct scene {
    const char *what;
    struct rank_view ranks[2]; /* the state is that of the first */
    enum grace_state state;
    int left;
} scenes[] = {
    {"both train", {{AFTER(7)}, {AFTER(7)}}, GRACE_WORKS, -1},
    {"it has ended", {{DONE(7)}, {AFTER(7)}}, GRACE_LEFT, -1},
    {"it is at the end of its program", {{AFTER(7), AT_END}, {AFTER(7)}}, GRACE_LEFT, -1},
    {"its script has ended, its trainer has not",
     {{AFTER(7), .ended = true, .outlived = true}, {DONE(7)}},
     GRACE_WORKS,
     -1},
    {"it saves, and the other rank has left", {{AFTER(7)}, {DONE(7)}}, GRACE_WORKS, -1},
    {"it waits for a rank that still works", {{AFTER(8), IN_BUCKET(8)}, {AFTER(7)}}, GRACE_WORKS, -1},
    {"it waits for a rank that has ended", {{AFTER(8), IN_BUCKET(8)}, {DONE(7)}}, GRACE_WAITS, 1},
    {"it waits for a rank that is at its end", {{AFTER(7), IN_BUCKET(8)}, {AFTER(7), AT_END}}, GRACE_WAITS, 1},
    {"it waits for a rank that a signal ended",
     {{AFTER(7), IN_BUCKET(8)}, {AFTER(7), .ended = true, .signal = 15}},
     GRACE_WAITS,
     1},
    {"it waits for a rank whose script has ended",
     {{AFTER(7), IN_BUCKET(8)}, {AFTER(7), .ended = true, .outlived = true}},
     GRACE_WORKS,
     -1},
    {"it gets what the other rank has sent before it left", {{AFTER(7), IN_BUCKET(7)}, {DONE(7)}}, GRACE_WORKS, -1},
    {"and has not got it for long",
     {{AFTER(7), IN_BUCKET(7), .wait_ns = UINT64_C(1000000000)}, {DONE(7)}},
     GRACE_WAITS,
     1},
    {"its device waits, and its host saves",
     {{AFTER(8), .wait = RANK_WAIT_COLLECTIVE, .wait_for = "bucket 0 of step 8", .wait_step = 8, .wait_ns = UINT64_MAX},
      {DONE(7)}},
     GRACE_WORKS,
     -1},
    {"its device waits, and its host for the judgement of that step",
     {{AFTER(8), .wait = RANK_WAIT_COLLECTIVE, .wait_for = "bucket 0 of step 8", .wait_step = 8, .in_step = 1},
      {DONE(7)}},
     GRACE_WAITS,
     1},
    {"its device waits, and its program has ended",
     {{AFTER(8), .wait = RANK_WAIT_COLLECTIVE, .wait_for = "bucket 0 of step 8", .wait_step = 8, .ends = true},
      {AFTER(7), AT_END}},
     GRACE_WAITS,
     1},
    {"its device waits, its host saves, and the next step will be judged",
     {{AFTER(8), .wait = RANK_WAIT_COLLECTIVE, .wait_for = "bucket 0 of step 8", .wait_step = 8}, {DONE(7)}},
     GRACE_WORKS,
     -1},
    {"it saves in its handler", {{AFTER(8), IN_BUCKET(8), .in_handler = true}, {DONE(7)}}, GRACE_WORKS, -1},
    {"its engine has stopped it while it saves in its handler",
     {{.stage = RANK_STAGE_FAILED, .step = 8, .in_handler = true}, {DONE(7)}},
     GRACE_WORKS,
     -1},
    {"a call, for a moment",
     {{AFTER(7), .wait = RANK_WAIT_COLLECTIVE, .wait_for = "DDP_REDUCE", .wait_step = 8, .in_call = true},
      {AFTER(7), AT_END}},
     GRACE_WORKS,
     -1},
    {"a call, for long",
     {{AFTER(7), .wait = RANK_WAIT_EXCHANGE, .wait_for = "DDP_MEAN (t.c:8)", .wait_ns = UINT64_C(2000000000)},
      {AFTER(7), AT_END}},
     GRACE_WAITS,
     1},
    {"a collective of another program", {{AFTER(8), IN_BUCKET(8), .generation = 1}, {DONE(7)}}, GRACE_WORKS, -1},
    {"it waits to meet a rank that has ended",
     {{.stage = RANK_STAGE_GATE, .connected = true}, {.ended = true}},
     GRACE_WAITS,
     1},
    {"it has not used CUDA yet", {{.stage = RANK_STAGE_NONE}, {.ended = true}}, GRACE_WORKS, -1},
    {"its engine has stopped it", {{.stage = RANK_STAGE_FAILED, .step = 7}, {AFTER(7)}}, GRACE_FAILED, -1},
    {"its engine has stopped it, as the other has left",
     {{.stage = RANK_STAGE_FAILED, .step = 8}, {DONE(7)}},
     GRACE_FAILED,
     1},
};

TABLE_TEST(who_works_and_who_waits_in_vain, scenes)
{
    int left = 99;
    ck_assert_msg(grace_state_of(scenes[_i].ranks, 2, 0, &left) == scenes[_i].state, "%s", scenes[_i].what);
    ck_assert_int_eq(left, scenes[_i].left);
}

static struct grace grace;
static char text[GRACE_TEXT_BYTES];

static void
begin(void)
{
    grace_begin(&grace, SIGTERM, 30, 3);
}

static void
end(void)
{
    grace_free(&grace);
}

TEST_GROUP(lines, .setup = begin, .teardown = end);

TEST(ranks_that_stopped_at_different_steps_are_named_once_with_the_recipe)
{
    bool ends[3];
    struct rank_view ranks[3] = {{AFTER(83), IN_BUCKET(83)}, {AFTER(82), AT_END}, {AFTER(82)}};
    ck_assert(grace_find_ends(&grace, ranks, ends, text));
    ck_assert(ends[0] && !ends[1] && !ends[2]);
    ck_assert_says(text, "ranks stopped at different steps after SIGTERM (rank 1 after step 82, rank 0 in step 83): ",
                   "rank 0 (process 12) waits for bucket 0 of step", "DDP_ANY(&flag)");
    ck_assert(!grace_find_ends(&grace, ranks, ends, text)); /* it is being ended */
    ranks[0].killed = RANK_KILLED_WAITING;
    ranks[0].ended = true;
    ranks[2] = (struct rank_view){AFTER(82), IN_BUCKET(83)};
    ck_assert(grace_find_ends(&grace, ranks, ends, text));
    ck_assert(!ends[0] && ends[2]);
    ck_assert_says(text, "rank 2 (process 12) waits for bucket 0 of step", "was ended, too");
    ck_assert_ptr_null(strstr(text, "DDP_ANY"));
}

TEST(a_rank_that_failed_by_itself_has_its_own_words)
{
    bool ends[3];
    struct rank_view ranks[3] = {
        {AFTER(82)}, {.stage = RANK_STAGE_FAILED, .step = 82, .failure = "w2 has no room\nmore"}, {AFTER(82)}};
    ck_assert(grace_find_ends(&grace, ranks, ends, text));
    ck_assert(ends[1] && !ends[0]);
    ck_assert_str_eq(text, "rank 1 after step 82, after the signal: w2 has no room; the rank was ended");
}

TEST(each_rank_that_was_late_has_a_line)
{
    struct rank_view ranks[3] = {{AFTER(82), .killed = RANK_KILLED_LATE, .call = "cuMemcpyDtoH_v2"},
                                 {AFTER(83), IN_BUCKET(83), .killed = RANK_KILLED_LATE},
                                 {DONE(82), .killed = RANK_KILLED_LATE}}; /* at the last moment, by itself */
    ck_assert(!grace_next_late(&grace, ranks, text));                     /* their ends are not known yet */
    for (int i = 0; i < 2; ++i) {
        ranks[i].ended = true;
        ranks[i].signal = SIGKILL;
    }
    ck_assert(grace_next_late(&grace, ranks, text));
    ck_assert_says(text,
                   "rank 0 (process 12) was killed 30 s after SIGTERM, after step 82: it runs or waits in host code",
                   "cuMemcpyDtoH_v2", "--grace N");
    ck_assert_ptr_null(strstr(text, "DDP_ANY"));
    ck_assert(grace_next_late(&grace, ranks, text));
    ck_assert_says(text, "rank 1 (process 12) was killed", "it waits for bucket 0 of step", "--grace N",
                   "DDP_ANY(&flag)");
    ck_assert(!grace_next_late(&grace, ranks, text));
}

TEST(lines_about_many_ranks_are_bounded)
{
    enum { MANY = 200 };
    static struct rank_view ranks[MANY];
    int lines = 0;
    grace_free(&grace);
    grace_begin(&grace, SIGINT, 5, MANY);
    for (int i = 0; i < MANY; ++i)
        ranks[i] = (struct rank_view){AFTER(1), .killed = RANK_KILLED_LATE, .ended = true, .signal = SIGKILL};
    while (grace_next_late(&grace, ranks, text))
        ++lines;
    ck_assert_int_eq(lines, GRACE_LINES_AT_MOST + 1);
    bool ends[MANY];
    for (int i = 0; i < MANY; ++i)
        ranks[i] = (struct rank_view){AFTER(8), IN_BUCKET(8)};
    ranks[0] = (struct rank_view){DONE(7)};
    memset(grace.is_told, 0, MANY * sizeof(*grace.is_told));
    ck_assert(grace_find_ends(&grace, ranks, ends, text));
    ck_assert_says(text, "191 more ranks did not stop", "as do 198 more", "DDP_ANY(&flag)");
}

TEST(a_failure_after_a_signal_of_the_ranks_is_told_from_a_mistake)
{
    struct rank_view apart[2] = {{AFTER(82), AT_END}, {AFTER(83), IN_BUCKET(83)}}, alike[2] = {{DONE(82)}, {DONE(82)}},
                     died[2] = {{AFTER(82), .ended = true, .signal = SIGSEGV}, {AFTER(83), IN_BUCKET(83)}};
    ck_assert(grace_find_parting(apart, 2, SIGUSR1, text));
    ck_assert_says(text, "ranks stopped at different steps after SIGUSR1 (rank 0 after step 82, rank 1 in step 83)",
                   "DDP_ANY(&flag)");
    ck_assert(!grace_find_parting(alike, 2, SIGUSR1, text));
    ck_assert(!grace_find_parting(died, 2, SIGUSR1, text));
}

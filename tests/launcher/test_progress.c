/*
 * test_progress.c - what the progress line says, and when: rates from the times at which steps were seen, nothing that
 * a terminal would obey, nothing before there is something to say. On a terminal: seen.sh.
 */
#include "launcher/report/progress.h"

#include "tests/test.h"

#define SECOND 1000000000ull

TEST(says_what_is_known)
{
    char text[256];
    struct rank_view ranks[2] = {{.step = 12}, {.step = 11}}, none[2] = {{.gradient_count = 1}, {.gradient_count = 1}};
    progress_compose(none, 2, 0.0, text, sizeof(text));
    ck_assert_str_eq(text, "no DDP_STEP yet");
    progress_compose(ranks, 2, 0.0, text, sizeof(text));
    ck_assert_str_eq(text, "step 11"); /* the job is where its last rank is */
    progress_compose(ranks, 2, 458.62, text, sizeof(text));
    ck_assert_str_eq(text, "step 11, 458.6 steps/s");
    progress_compose(ranks, 2, 0.25, text, sizeof(text));
    ck_assert_str_eq(text, "step 11, 4.0 s a step");
}

TEST(exposed_is_that_of_the_rank_that_waited_least)
{
    char text[256];
    struct rank_view ranks[2] = {{.step = 9}, {.step = 9}};
    for (uint64_t step = 1; step <= 9; ++step) {
        ranks[0].exposed_steps[rank_exposed_place(step)] = rank_exposed_pack(step, 59000000);
        ranks[1].exposed_steps[rank_exposed_place(step)] = rank_exposed_pack(step, 1000000);
    }
    progress_compose(ranks, 2, 31.0, text, sizeof(text));
    ck_assert_str_eq(
        text, "step 9, 31.0 steps/s, exposed 1 ms, waiting for rank 1: 58 ms per step, last to arrive in 9 of 9 steps");
    memset(ranks[0].exposed_steps, 0, sizeof(ranks[0].exposed_steps)); /* not measured there yet: nothing is claimed */
    progress_compose(ranks, 2, 31.0, text, sizeof(text));
    ck_assert_str_eq(text, "step 9, 31.0 steps/s");
}

TEST(means_by_name_and_nothing_that_a_terminal_obeys)
{
    char text[256];
    struct rank_view ranks[1] = {{.step = 3,
                                  .mean_count = 2,
                                  .means = {{.name = "loss", .value = 0.43125}, {.name = "a\033[2Jb\n", .value = 2}}}};
    progress_compose(ranks, 1, 0.0, text, sizeof(text));
    ck_assert_str_eq(text, "step 3, loss 0.4313, a?[2Jb? 2");
    ranks[0].means[1] = (struct mean_view){.name = "loss", .place = "train.c:88", .value = 2};
    snprintf(ranks[0].means[0].place, sizeof(ranks[0].means[0].place), "train.c:71");
    progress_compose(ranks, 1, 0.0, text, sizeof(text));
    ck_assert_str_eq(text, "step 3, loss (train.c:71) 0.4313, loss (train.c:88) 2");
    char tiny[12];
    progress_compose(ranks, 1, 0.0, tiny, sizeof(tiny));
    ck_assert_str_eq(tiny, "step 3, los");
}

/* What a run of `steps` looks, a second apart, writes to an stderr that is no terminal. */
static void
look_at(enum progress_choice choice, struct rank_view *ranks, int rank_count, const uint64_t *steps, size_t count,
        char *written, size_t bytes)
{
    int ends[2], old = dup(STDERR_FILENO);
    ck_assert(pipe2(ends, O_NONBLOCK) == 0);
    dup2(ends[1], STDERR_FILENO);
    struct progress *progress = progress_new(choice);
    for (size_t i = 0; i < count; ++i) {
        for (int r = 0; r < rank_count; ++r)
            ranks[r].step = steps[i];
        progress_show(progress, ranks, rank_count, (i + 1) * SECOND);
    }
    progress_hide(progress);
    progress_free(progress);
    dup2(old, STDERR_FILENO);
    close(old);
    ssize_t got = read(ends[0], written, bytes - 1);
    written[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    close(ends[1]);
}

static void
look(enum progress_choice choice, const uint64_t *steps, size_t count, char *written, size_t bytes)
{
    struct rank_view rank = {.step = 0};
    look_at(choice, &rank, 1, steps, count, written, bytes);
}

TEST(gradients_without_a_step_are_reported)
{
    char written[1024];
    const uint64_t steps[30] = {[15] = 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct rank_view ranks[2] = {{.gradient_count = 1}, {.gradient_count = 1}}, bare[2] = {{.step = 0}, {.step = 0}};
    look_at(PROGRESS_ON, ranks, 2, steps, 30, written, sizeof(written));
    ck_assert_str_eq(written, "ddprun: no DDP_STEP yet\nddprun: step 1\n");
    look_at(PROGRESS_ON, ranks, 1, steps, 15, written, sizeof(written)); /* one rank needs none */
    ck_assert_str_eq(written, "");
    look_at(PROGRESS_ON, bare, 2, steps, 15, written, sizeof(written));
    ck_assert_str_eq(written, "");
}

TEST(without_a_terminal_a_line_every_ten_seconds_if_asked_for)
{
    char written[1024];
    /* The first step is seen in second 3, and from then on two steps in each. */
    uint64_t steps[30] = {0, 0};
    for (size_t i = 2; i < 30; ++i)
        steps[i] = 2 * (i - 1);
    look(PROGRESS_ON, steps, 30, written, sizeof(written));
    ck_assert_str_eq(written, "ddprun: step 22, 2.0 steps/s\nddprun: step 42, 2.0 steps/s\n");
    look(PROGRESS_AUTO, steps, 30, written, sizeof(written));
    ck_assert_str_eq(written, "");
    look(PROGRESS_OFF, steps, 30, written, sizeof(written));
    ck_assert_str_eq(written, "");
}

TEST(the_rate_forgets_what_is_long_ago)
{
    char written[2048];
    /* 40 seconds with a step in each, then 60 seconds with five. */
    uint64_t steps[100];
    for (size_t i = 0; i < 100; ++i)
        steps[i] = i < 40 ? i + 1 : 40 + 5 * (i - 39);
    look(PROGRESS_ON, steps, 100, written, sizeof(written));
    const char *last = strstr(written, "step 295,"); /* second 91 */
    ck_assert_msg(last != NULL, "%s", written);
    ck_assert_msg(strncmp(last, "step 295, 5.0 steps/s\n", 22) == 0, "%s", last);
}

TEST(the_rate_is_that_of_the_training_in_progress)
{
    char written[1024];
    /* 15 steps, five in each second, and another program that makes two. */
    uint64_t steps[24] = {5, 10, 15};
    for (size_t i = 4; i < 24; ++i)
        steps[i] = 2 * (i - 3);
    look(PROGRESS_ON, steps, 24, written, sizeof(written));
    ck_assert_str_eq(written, "ddprun: step 14, 2.0 steps/s\nddprun: step 34, 2.0 steps/s\n");
}

TEST(a_reader_that_does_not_read_is_not_waited_for)
{
    int ends[2], old = dup(STDERR_FILENO);
    ck_assert(pipe(ends) == 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    char block[4096] = {0};
    while (write(ends[1], block, sizeof(block)) > 0) {
    }
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], STDERR_FILENO);
    struct progress *progress = progress_new(PROGRESS_ON);
    for (uint64_t i = 0; i < 30; ++i) {
        struct rank_view rank = {.step = i};
        progress_show(progress, &rank, 1, i * SECOND);
    }
    progress_free(progress);
    dup2(old, STDERR_FILENO); /* that we come here is the property */
    close(old);
    close(ends[0]);
    close(ends[1]);
}

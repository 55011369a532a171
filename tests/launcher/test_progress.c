/*
 * test_progress.c - what the progress line says, and when: the figures of the closing lines at that step, nothing that
 * a terminal would obey, nothing before there is something to say. On a terminal: seen.sh.
 */
#include "launcher/report/progress.h"

#include "launcher/report/closing.h"
#include "launcher/watch/pace.h"

#include "tests/lib/test.h"

#define SECOND 1000000000ull

TEST(says_what_is_known)
{
    char text[256];
    struct rank_view ranks[2] = {{.step = 12}, {.step = 11}}, none[2] = {{.gradient_count = 1}, {.gradient_count = 1}};
    progress_compose(none, 2, text, sizeof(text));
    ck_assert_str_eq(text, "no DDP_STEP yet");
    progress_compose(ranks, 2, text, sizeof(text));
    ck_assert_str_eq(text, "step 11"); /* the job is where its last rank is */
    ranks[0].training_us = 11 * 2180;
    progress_compose(ranks, 2, text, sizeof(text));
    ck_assert_str_eq(text, "step 11, 458.7 steps/s");
    ranks[0].training_us = 11 * 4000000;
    progress_compose(ranks, 2, text, sizeof(text));
    ck_assert_str_eq(text, "step 11, 4.0 s a step");
}

TEST(says_what_a_step_is_with_turns)
{
    char text[256];
    struct rank_view ranks[] = {{.step = 7, .turn_rounds = 7}, {.step = 7, .turn_rounds = 7}};
    progress_compose(ranks, 2, text, sizeof(text));
    ck_assert_str_eq(text, "step 7 (rounds of 2 batches)");
}

static char said[2048];

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    va_list args;
    size_t at = strlen(said);
    va_start(args, format);
    vsnprintf(said + at, sizeof(said) - at, format, args);
    va_end(args);
}

static void
set_wait(struct rank_view *rank, uint64_t step, uint64_t ns)
{
    rank->exposed_steps[rank_exposed_place(step)] = rank_exposed_pack(step, ns);
}

/* In each step one rank waits 1 ms, and the other 9 ms for it. What is advised against waiting? */
static const struct advised_row {
    bool takes_turns; /* the ranks do, at being last; else rank 1 is */
    bool advises;
} advised[] = {{true, true}, {false, false}};

TABLE_TEST(binding_is_advised_where_no_rank_is_the_straggler, advised)
{
    struct rank_view ranks[2] = {{.stage = RANK_STAGE_TRAINING}, {.stage = RANK_STAGE_TRAINING}};
    const struct closing closing = {.ranks = ranks, .rank_count = 2, .summary = true, .unbound = true};
    for (uint64_t step = 1; step <= 200; ++step) {
        int last = advised[_i].takes_turns ? (int)(step / 5 % 2) : 1;
        for (int r = 0; r < 2; ++r) {
            set_wait(&ranks[r], step, r == last ? 1000000 : 9000000);
            ranks[r].step = step;
            ranks[r].timed_steps = step - 1;
            ranks[r].timed_ns = (step - 1) * 32258064;
        }
        pace_note(ranks, 2);
    }
    said[0] = '\0';
    closing_say(&closing, say);
    ck_assert_msg((strstr(said, "--bind core") != NULL) == advised[_i].advises, "%s", said);
}

/* Rank 1 waits 1 ms in each step, rank 0 59 ms. The first 30 of 600 steps are out of the records by then. */
TEST(the_figures_are_those_of_the_closing_lines)
{
    char text[256];
    struct rank_view ranks[2] = {{.stage = RANK_STAGE_TRAINING}, {.stage = RANK_STAGE_TRAINING}};
    const struct closing closing = {.ranks = ranks, .rank_count = 2, .summary = true};
    for (uint64_t step = 1; step <= 600; ++step) {
        for (int r = 0; r < 2; ++r) {
            set_wait(&ranks[r], step, r == 1 ? 1000000 : step <= 30 ? 259000000 : 59000000);
            ranks[r].step = step;
            ranks[r].timed_steps = step - 1;
            ranks[r].timed_ns = (step - 1) * 32258064;
        }
        pace_note(ranks, 2);
        if (step != 9 && step != 600)
            continue;
        progress_compose(ranks, 2, text, sizeof(text));
        ck_assert_str_eq(text, step == 9 ? "step 9, 31.0 steps/s, exposed 1 ms, waiting for rank 1: 258 ms per step, "
                                           "last to arrive in 9 of 9 steps"
                                         : "step 600, 31.0 steps/s, exposed 1 ms, waiting for rank 1: 68 ms per step, "
                                           "last to arrive in 600 of 600 steps");
        said[0] = '\0';
        closing_say(&closing, say);
        ck_assert_msg(strstr(said, strstr(text, "waiting for")) != NULL && strstr(said, ") 31.0 steps/s") != NULL &&
                          strstr(said, "exposed communication: 1 ms per step") != NULL,
                      "%s", said);
    }
    memset(ranks[0].exposed_steps, 0, sizeof(ranks[0].exposed_steps)); /* not measured there yet: nothing is claimed */
    ranks[0].pace_sums.count = 0;
    progress_compose(ranks, 2, text, sizeof(text));
    ck_assert_str_eq(text, "step 600, 31.0 steps/s");
}

TEST(means_by_name_and_nothing_that_a_terminal_obeys)
{
    char text[256];
    struct rank_view ranks[1] = {{.step = 3,
                                  .mean_count = 2,
                                  .means = {{.name = "loss", .value = 0.43125}, {.name = "a\033[2Jb\n", .value = 2}}}};
    progress_compose(ranks, 1, text, sizeof(text));
    ck_assert_str_eq(text, "step 3, loss 0.4313, a?[2Jb? 2");
    ranks[0].means[1] = (struct mean_view){.name = "loss", .place = "train.c:88", .value = 2};
    snprintf(ranks[0].means[0].place, sizeof(ranks[0].means[0].place), "train.c:71");
    progress_compose(ranks, 1, text, sizeof(text));
    ck_assert_str_eq(text, "step 3, loss (train.c:71) 0.4313, loss (train.c:88) 2");
    char tiny[12];
    progress_compose(ranks, 1, tiny, sizeof(tiny));
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
    ck_assert_str_eq(written, "ddprun: step 22\nddprun: step 42\n");
    look(PROGRESS_AUTO, steps, 30, written, sizeof(written));
    ck_assert_str_eq(written, "");
    look(PROGRESS_OFF, steps, 30, written, sizeof(written));
    ck_assert_str_eq(written, "");
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

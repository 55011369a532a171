/*
 * test_metrics.c - the file of --metrics: only what is known, labels as the format wants them, and a whole file at each
 * time.
 */
#include "launcher/report/metrics.h"

#include "base/message.h"
#include "tests/lib/test.h"

static const struct metrics_job job = {
    .name = "h:7", .program = "tr\"ain", .restarts = 3, .grace_s = 70, .signal = SIGTERM};

#define OF_JOB "run=\"h:7\",program=\"tr\\\"ain\""

/* A figure of the job, as a line of the text. */
#define OF_JOB_LINE(name, value) "\n" name "{" OF_JOB "} " value "\n"

TEST(says_what_is_known_and_nothing_else)
{
    struct rank_view ranks[2] = {{.step = 12, .host = "a", .warnings.all = {{.count = 2}}},
                                 {.step = 11, .host = "b", .warnings.all = {{.count = 1}, {.count = 4}}}};
    char *text = metrics_compose(&job, ranks, 2, -1, 5.5);
    /* The job is where its last rank is. */
    ck_assert_says(text, OF_JOB_LINE("ddprun_format", "1"), OF_JOB_LINE("ddprun_running", "1"),
                   OF_JOB_LINE("ddprun_ranks", "2"), OF_JOB_LINE("ddprun_restarts_total", "3"),
                   OF_JOB_LINE("ddprun_steps_total", "11"), OF_JOB_LINE("ddprun_warnings_total", "7"),
                   "\nddprun_rank_steps_total{" OF_JOB ",rank=\"0\",host=\"a\"} 12\n",
                   OF_JOB_LINE("ddprun_written_seconds", "5.5"), "\n# TYPE ddprun_steps_total counter\n");
    static const char *const unknown[] = {"exit_code", "exposed", "waiting", "straggler", "mean", "buckets", "checked"};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); ++i)
        ck_assert_ptr_null(strstr(text, unknown[i]));
    free(text);
}

TEST(what_steps_wait_for_is_in_seconds)
{
    struct rank_view ranks[2] = {{.step = 9}, {.step = 9}};
    for (uint64_t step = 1; step <= 9; ++step) {
        ranks[0].exposed_steps[rank_exposed_place(step)] = rank_exposed_pack(step, 59000000);
        ranks[1].exposed_steps[rank_exposed_place(step)] = rank_exposed_pack(step, 1000000);
    }
    char *text = metrics_compose(&job, ranks, 2, -1, 1);
    ck_assert_says(text, OF_JOB_LINE("ddprun_exposed_seconds", "0.001"), OF_JOB_LINE("ddprun_waiting_seconds", "0.058"),
                   OF_JOB_LINE("ddprun_straggler_rank", "1"));
    ck_assert_ptr_null(strstr(text, "slowed"));
    free(text);
    ranks[0].trial_count = 1;
    ranks[0].slowed_ns = 2500000;
    text = metrics_compose(&job, ranks, 2, -1, 1);
    ck_assert_says(text, OF_JOB_LINE("ddprun_slowed_seconds", "0.0025"));
    free(text);
    ranks[0].trial_step_ns = 20000000; /* steps are much shorter now */
    ranks[0].step = 11;
    ranks[0].training_step = 1;
    ranks[0].training_us = 10 * 13000;
    text = metrics_compose(&job, ranks, 2, -1, 1);
    ck_assert_ptr_null(strstr(text, "slowed"));
    free(text);
    ranks[0].training_us = 10 * 14000;
    text = metrics_compose(&job, ranks, 2, -1, 1);
    ck_assert_says(text, OF_JOB_LINE("ddprun_slowed_seconds", "0.0025"));
    free(text);
}

TEST(labels_are_escaped_and_values_may_be_no_numbers)
{
    struct rank_view ranks[1] = {{.mean_count = 3,
                                  .means = {{.name = "a\"b\\c\nd", .place = "t.c:1", .value = 0.5},
                                            {.name = "e", .place = "t.c:2", .value = NAN},
                                            {.name = "f", .place = "t.c:3", .value = -INFINITY}}}};
    char *text = metrics_compose(&job, ranks, 1, 7, 1);
    ck_assert_says(text, "\nddprun_mean{" OF_JOB ",name=\"a\\\"b\\\\c\\nd\",place=\"t.c:1\"} 0.5\n",
                   "\nddprun_mean{" OF_JOB ",name=\"e\",place=\"t.c:2\"} NaN\n",
                   "\nddprun_mean{" OF_JOB ",name=\"f\",place=\"t.c:3\"} -Inf\n", OF_JOB_LINE("ddprun_running", "0"),
                   OF_JOB_LINE("ddprun_exit_code", "7"), OF_JOB_LINE("ddprun_grace_seconds", "70"),
                   OF_JOB_LINE("ddprun_signal", "15"));
    free(text);
}

/* The first line with "steps_total" of the file; -1: there is no file. */
static int
steps_in(const char *path)
{
    char line[256];
    int steps = -1;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        (void)sscanf(line, "ddprun_steps_total{%*[^}]} %d", &steps);
    if (file != NULL)
        fclose(file);
    return steps;
}

/* Looks until the file has so many steps. */
static void
look_until(struct metrics *metrics, const struct rank_view *ranks, uint64_t now_ns, const char *path, int steps)
{
    for (int i = 0; i < 60000 && steps_in(path) != steps; ++i) {
        metrics_look(metrics, ranks, 1, now_ns);
        poll(NULL, 0, 1);
    }
    ck_assert_int_eq(steps_in(path), steps);
}

TEST(the_file_is_replaced_every_ten_seconds_and_at_the_end)
{
    char path[] = "/tmp/ddprun-test-metrics-XXXXXX";
    int fd = mkstemp(path);
    struct rank_view ranks[1] = {{.step = 1}};
    struct metrics *metrics = metrics_new(path, "/bin/train", 0, 30);
    look_until(metrics, ranks, 1000000000, path, 1);
    ranks[0].step = 2;
    for (int i = 0; i < 20; ++i)
        metrics_look(metrics, ranks, 1, 10000000000);
    ck_assert_int_eq(steps_in(path), 1);
    look_until(metrics, ranks, 11000000000, path, 2);
    ranks[0].step = 3;
    metrics_end(metrics, ranks, 1, 0, 0);
    metrics_free(metrics);
    ck_assert_int_eq(steps_in(path), 3);
    close(fd);
    unlink(path);
}

/* A FIFO without a reader: no look waits for one. */
TEST(a_failure_is_reported_once)
{
    char fifo[] = "/tmp/ddprun-test-metrics-XXXXXX", text[4096] = "";
    int ends[2];
    struct rank_view ranks[1] = {{.step = 1}};
    ck_assert_ptr_nonnull(mkdtemp(fifo));
    ck_assert_int_eq(rmdir(fifo), 0);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    ck_assert_int_eq(pipe(ends), 0);
    message_to(ends[1]);
    const char *const paths[] = {"/no/such/folder/metrics", fifo};
    for (size_t i = 0; i < 2; ++i) {
        struct metrics *metrics = metrics_new(paths[i], "/bin/train", 0, 30);
        for (uint64_t s = 1; s < 50; ++s)
            metrics_look(metrics, ranks, 1, s * 1000000000);
        metrics_end(metrics, ranks, 1, 0, 0);
        metrics_free(metrics);
        ck_assert_int_gt(read(ends[0], text, sizeof(text) - 1), 0);
        ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
        ck_assert_ptr_nonnull(strstr(text, i == 0 ? "No such file" : "gave no data"));
        memset(text, 0, sizeof(text));
    }
    message_to(STDERR_FILENO);
    unlink(fifo);
}

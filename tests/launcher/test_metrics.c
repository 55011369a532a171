/*
 * test_metrics.c - the file of --metrics: only what is known, labels as the format wants them, and a whole file at each
 * time.
 */
#include "launcher/report/metrics.h"

#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int said;

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    (void)format;
    ++said;
}

static bool
has_line(const char *text, const char *line)
{
    for (const char *at = strstr(text, line); at != NULL; at = strstr(at + 1, line)) {
        if ((at == text || at[-1] == '\n') && at[strlen(line)] == '\n')
            return true;
    }
    return false;
}

TEST(says_what_is_known_and_nothing_else)
{
    struct rank_view ranks[2] = {{.step = 12, .host = "a"}, {.step = 11, .host = "b"}};
    char *text = metrics_compose(ranks, 2, 3, -1, 5.5);
    ck_assert(has_line(text, "ddprun_running 1"));
    ck_assert(has_line(text, "ddprun_ranks 2"));
    ck_assert(has_line(text, "ddprun_restarts_total 3"));
    ck_assert(has_line(text, "ddprun_steps_total 11")); /* the job is where its last rank is */
    ck_assert(has_line(text, "ddprun_rank_steps_total{rank=\"0\",host=\"a\"} 12"));
    ck_assert(has_line(text, "ddprun_written_seconds 5.5"));
    ck_assert(has_line(text, "# TYPE ddprun_steps_total counter"));
    static const char *const unknown[] = {"exit_code", "exposed", "waiting", "straggler", "mean", "buckets", "checked"};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); ++i)
        ck_assert_ptr_null(strstr(text, unknown[i]));
    free(text);
}

TEST(what_steps_wait_for_is_in_seconds)
{
    struct rank_view ranks[2] = {{.step = 9, .exposed_count = 50}, {.step = 9, .exposed_count = 50}};
    for (uint64_t step = 1; step <= 9; ++step) {
        ranks[0].exposed_steps[rank_exposed_place(step)] = rank_exposed_pack(step, 59000000);
        ranks[1].exposed_steps[rank_exposed_place(step)] = rank_exposed_pack(step, 1000000);
    }
    char *text = metrics_compose(ranks, 2, 0, -1, 1);
    ck_assert(has_line(text, "ddprun_exposed_seconds 0.001"));
    ck_assert(has_line(text, "ddprun_waiting_seconds 0.058"));
    ck_assert(has_line(text, "ddprun_straggler_rank 1"));
    ck_assert_ptr_null(strstr(text, "slowed"));
    free(text);
    ranks[0].trial_count = 1;
    ranks[0].slowed_ns = 2500000;
    text = metrics_compose(ranks, 2, 0, -1, 1);
    ck_assert(has_line(text, "ddprun_slowed_seconds 0.0025"));
    free(text);
}

TEST(labels_are_escaped_and_values_may_be_no_numbers)
{
    struct rank_view ranks[1] = {{.mean_count = 3,
                                  .means = {{.name = "a\"b\\c\nd", .place = "t.c:1", .value = 0.5},
                                            {.name = "e", .place = "t.c:2", .value = NAN},
                                            {.name = "f", .place = "t.c:3", .value = -INFINITY}}}};
    char *text = metrics_compose(ranks, 1, 0, 7, 1);
    ck_assert(has_line(text, "ddprun_mean{name=\"a\\\"b\\\\c\\nd\",place=\"t.c:1\"} 0.5"));
    ck_assert(has_line(text, "ddprun_mean{name=\"e\",place=\"t.c:2\"} NaN"));
    ck_assert(has_line(text, "ddprun_mean{name=\"f\",place=\"t.c:3\"} -Inf"));
    ck_assert(has_line(text, "ddprun_running 0"));
    ck_assert(has_line(text, "ddprun_exit_code 7"));
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
        (void)sscanf(line, "ddprun_steps_total %d", &steps);
    if (file != NULL)
        fclose(file);
    return steps;
}

TEST(the_file_is_replaced_every_ten_seconds_and_at_the_end)
{
    char path[] = "/tmp/ddprun-test-metrics-XXXXXX";
    int fd = mkstemp(path);
    struct rank_view ranks[1] = {{.step = 1}};
    struct metrics *metrics = metrics_new(path, 0);
    metrics_look(metrics, ranks, 1, 1000000000, say);
    ck_assert_int_eq(steps_in(path), 1);
    ranks[0].step = 2;
    metrics_look(metrics, ranks, 1, 10000000000, say);
    ck_assert_int_eq(steps_in(path), 1);
    metrics_look(metrics, ranks, 1, 11000000000, say);
    ck_assert_int_eq(steps_in(path), 2);
    ranks[0].step = 3;
    metrics_end(metrics, ranks, 1, 0, say);
    ck_assert_int_eq(steps_in(path), 3);
    metrics_free(metrics);
    close(fd);
    unlink(path);
    ck_assert_int_eq(said, 0);
}

TEST(a_failure_is_reported_once)
{
    struct rank_view ranks[1] = {{.step = 1}};
    struct metrics *metrics = metrics_new("/no/such/folder/metrics", 0);
    said = 0;
    for (uint64_t s = 1; s < 50; ++s)
        metrics_look(metrics, ranks, 1, s * 1000000000, say);
    ck_assert_int_eq(said, 1);
    metrics_free(metrics);
}

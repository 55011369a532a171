/*
 * test_trace.c - traces of ranks whose clocks differ, made up so that the difference is known; and files that are not
 * what they should be.
 */
#include "tools/trace/read.h"

#include "tests/lib/test.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

enum { RANKS = 3, MOST_EXCHANGES = 600 };

/* How a rank's clock goes: ahead of the true time by so much, and faster by so many parts of a million. */
struct wrong_clock {
    int64_t ahead_ns;
    double ppm;
};

static int64_t
shown(const struct wrong_clock *clock, int64_t true_ns)
{
    return true_ns + clock->ahead_ns + (int64_t)((double)true_ns * clock->ppm / 1e6);
}

static uint64_t random_state;

static int64_t
random_below(int64_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)limit);
}

static struct trace_exchange exchanges[RANKS][MOST_EXCHANGES];
static struct trace_run runs[RANKS];

/* Exchanges every `period_ns`: ranks come up to 5 ms apart, and leave after the last has come and the network has taken
 * its time. */
static struct trace
exchanging(const struct wrong_clock clocks[RANKS], int count, int64_t period_ns, int64_t network_ns)
{
    for (int e = 0; e < count; ++e) {
        int64_t begins[RANKS], last_ns = 0;
        for (int r = 0; r < RANKS; ++r) {
            begins[r] = S + e * period_ns + random_below(5 * MS);
            last_ns = begins[r] > last_ns ? begins[r] : last_ns;
        }
        for (int r = 0; r < RANKS; ++r) {
            int64_t end_ns = last_ns + network_ns + random_below(network_ns);
            exchanges[r][e] = (struct trace_exchange){.number = (uint64_t)e + 1,
                                                      .begin_ns = shown(&clocks[r], begins[r]),
                                                      .end_ns = shown(&clocks[r], end_ns)};
        }
    }
    for (int r = 0; r < RANKS; ++r)
        runs[r] = (struct trace_run){
            .job = 1, .rank = r, .world = RANKS, .exchanges = exchanges[r], .exchange_count = (size_t)count};
    return (struct trace){.runs = runs, .run_count = RANKS, .world = RANKS};
}

/* The rank's clock, put right, is that of rank 0 up to the error that is stated, and that is as small as the network
 * allows. */
static void
require_aligned(const struct trace *trace, const struct wrong_clock clocks[RANKS], int64_t until_ns, int64_t most_ns)
{
    struct run_clock *found = clocks_align(trace);
    for (int r = 0; r < RANKS; ++r) {
        ck_assert_int_le(found[r].error_ns, most_ns);
        for (int64_t at_ns = 2 * S; at_ns < until_ns; at_ns += S) {
            int64_t off_ns = clock_common(&found[r], shown(&clocks[r], at_ns)) - shown(&clocks[0], at_ns);
            ck_assert_int_le(llabs(off_ns), found[r].error_ns + 1);
        }
    }
    clocks_free(found, trace);
}

LOOP_TEST(clocks_are_aligned_within_the_stated_error, 0, 20)
{
    random_state = (uint64_t)_i;
    const struct wrong_clock clocks[RANKS] = {
        {random_below(1000 * S), 0}, {random_below(1000 * S), 0}, {-random_below(S), 0}};
    struct trace trace = exchanging(clocks, 50, 200 * MS, MS / 10);
    require_aligned(&trace, clocks, 11 * S, 2 * MS);
}

TEST(clocks_that_drift_are_followed)
{
    const struct wrong_clock clocks[RANKS] = {{0, 0}, {5 * S, 20}, {7 * S, -30}}; /* 18 ms in ten minutes */
    random_state = 77;
    struct trace trace = exchanging(clocks, MOST_EXCHANGES, S, MS / 10);
    struct run_clock *found = clocks_align(&trace);
    for (int64_t at_ns = 60 * S; at_ns < 540 * S; at_ns += S) {
        for (int r = 1; r < RANKS; ++r)
            ck_assert_int_le(llabs(clock_common(&found[r], shown(&clocks[r], at_ns)) - at_ns), 3 * MS);
    }
    clocks_free(found, &trace);
}

TEST(a_rank_without_exchanges_keeps_its_clock_and_is_not_compared)
{
    const struct wrong_clock clocks[RANKS] = {{0, 0}, {S, 0}, {S, 0}};
    struct trace trace = exchanging(clocks, 5, S, MS);
    runs[2].exchange_count = 0;
    struct run_clock *found = clocks_align(&trace);
    ck_assert_int_eq(found[2].error_ns, INT64_MAX);
    ck_assert_int_eq(clock_common(&found[2], 12345), 12345);
    clocks_free(found, &trace);
}

/* ---- files ---- */

static struct trace
taken(const char *text)
{
    struct trace trace = {0};
    trace_take_file(&trace, 0, "rank-0.jsonl", text, strlen(text));
    return trace;
}

#define HEAD "{\"ddprun_trace\":1,\"job\":5,\"rank\":0,\"world\":2,\"host\":\"h\",\"at_ns\":1,\"unix_ns\":2}\n"
#define STEP "{\"step\":1,\"group\":0,\"overlapped\":true,\"boundary_ns\":1000,\"released_us\":2.5,\"buckets\":[]}\n"

TEST(a_whole_file_has_its_steps_and_no_remark)
{
    struct trace trace = taken(HEAD STEP STEP "{\"end\":true}\n");
    ck_assert_uint_eq(trace.run_count, 1);
    ck_assert_uint_eq(trace.runs[0].step_count, 2);
    ck_assert(isnan(trace.runs[0].steps[0].begin_us));
    ck_assert_double_eq(trace.runs[0].steps[0].released_us, 2.5);
    ck_assert_uint_eq(trace.remark_count, 0);
    trace_free(&trace);
}

TEST(a_second_job_in_the_file_is_a_run_of_its_own)
{
    struct trace trace = taken(HEAD STEP HEAD STEP STEP "{\"end\":true}\n");
    ck_assert_uint_eq(trace.run_count, 2);
    ck_assert_uint_eq(trace.runs[0].step_count, 1);
    ck_assert_uint_eq(trace.runs[1].step_count, 2);
    trace_free(&trace);
}

TEST(trials_and_changes_of_overlap_are_taken)
{
    struct trace trace = taken(HEAD STEP "{\"trial\":8,\"group\":1,\"after_step\":20,\"at_ns\":70,\"slowed_us\":-2.5,"
                                         "\"overlapped_us\":90,\"apart_us\":80}\n"
                                         "{\"overlap\":false,\"group\":1,\"after_step\":20,\"at_ns\":71}\n"
                                         "{\"overlap\":true,\"group\":1,\"after_step\":40,\"at_ns\":72}\n"
                                         "{\"trial\":8,\"group\":-1}\n{\"overlap\":true,\"group\":64}\n"
                                         "{\"end\":true}\n");
    const struct trace_run *run = &trace.runs[0];
    ck_assert_uint_eq(run->trial_count, 1);
    ck_assert_int_eq(run->trials[0].group, 1);
    ck_assert_uint_eq(run->trials[0].after_step, 20);
    ck_assert_double_eq(run->trials[0].slowed_us, -2.5);
    ck_assert_double_eq(run->trials[0].apart_us, 80);
    ck_assert_uint_eq(run->overlap_count, 2);
    ck_assert(!run->overlaps[0].overlaps && run->overlaps[1].overlaps);
    ck_assert_uint_eq(run->overlaps[1].after_step, 40);
    ck_assert_uint_eq(trace.remark_count, 0);
    trace_free(&trace);
}

static const struct broken {
    const char *text, *remark;
    size_t steps;
} broken[] = {
    {HEAD STEP "{\"step\":2,\"gro", ": line 3 is cut or is not JSON", 1},
    {HEAD STEP "[]\n" STEP, ": line 3 is cut or is not JSON", 1},
    {HEAD STEP, NULL, 1},
    {STEP, "does not begin like a trace", 0},
    {"{\"ddprun_trace\":2}\n" STEP, "has version 2", 0},
    {"{\"ddprun_trace\":0}\n" STEP, "has version 0, and this ddprun reads version 1", 0}, /* the version before */
    {HEAD "{\"a later kind\":[{}]}\n{\"a later "
          "field\":1,\"step\":1,\"group\":0,\"boundary_ns\":1000,\"released_us\":2.5}\n{\"end\":true}\n",
     NULL, 1},
    {HEAD "{\"step\":1,\"group\":900,\"boundary_ns\":1000,\"released_us\":2.5}\n{\"end\":true}\n", NULL, 0},
    {HEAD "{\"step\":1,\"group\":0,\"boundary_ns\":\"x\",\"released_us\":2.5}\n{\"end\":true}\n", NULL, 0},
    {HEAD "{\"step\":1,\"group\":0,\"boundary_ns\":1000,\"released_us\":1e300}\n{\"end\":true}\n", NULL, 0},
    {"{\"ddprun_trace\":1,\"rank\":3,\"world\":2}\n{\"end\":true}\n", "is the trace of rank 3: was it renamed?", 0},
};

TABLE_TEST(what_is_not_whole_is_named, broken)
{
    struct trace trace = taken(broken[_i].text);
    ck_assert_uint_eq(trace.run_count > 0 ? trace.runs[0].step_count : 0, broken[_i].steps);
    ck_assert_uint_eq(trace.remark_count, broken[_i].remark != NULL);
    if (broken[_i].remark != NULL)
        ck_assert_ptr_nonnull(strstr(trace.remarks[0], broken[_i].remark));
    trace_free(&trace);
}

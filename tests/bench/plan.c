/*
 * plan.c - what a binary without annotations costs: bench/plan [--json] [--pairs N].
 *
 * A round of samples/chargpt_plain by plan on two ranks, of 4 sequences a batch, beside a step of the annotated
 * samples/chargpt with 8: runs in turn, each with the time of a step as ddprun itself reports it.
 *
 * The host's time of a launch (plan_calls.cu): one that a rank passes over, and one that it makes, by plan; one under
 * `ddprun -n 1`, whose hooks find nothing to do; and one without ddprun. Runs in turn.
 */
#include "report.h"

#include <json-c/json.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS_AT_MOST = 101, COMMAND_BYTES = 4 * PATH_MAX };

static const char chargpt[] = "--data " DDPRUN_BENCH_TEXT " --layers 4 --width 64 --warmup 0 --eval-every 1000000 "
                              "--eval-batches 1 --quiet";

static char folder[PATH_MAX], work[] = "/tmp/ddprun-plan-XXXXXX";

static void
fail(const char *what, const char *detail)
{
    fprintf(stderr, "bench: %s: %s\n", what, detail);
    exit(1);
}

static void
run(const char *command)
{
    if (system(command) != 0)
        fail("a run has failed; start it by hand to see why", command);
}

static void
make_plan(const char *name, const char *program)
{
    char command[COMMAND_BYTES];
    snprintf(command, sizeof(command),
             "%s/bin/ddprun -q --device softgpu scout --prove --json %s/%s.json %s/%s >/dev/null </dev/null", folder,
             work, name, folder, program);
    run(command);
}

/* ---- a round ---- */

/* Milliseconds between the steps of a job, as its summary has it. */
static double
step_ms(const char *options, const char *program)
{
    char command[COMMAND_BYTES], summary[PATH_MAX];
    snprintf(summary, sizeof(summary), "%s/summary", work);
    snprintf(command, sizeof(command),
             "XDG_CACHE_HOME=%s %s/bin/ddprun -q --device softgpu --share-gpu --summary-json %s %s %s/samples/%s %s "
             "</dev/null",
             work, folder, summary, options, folder, program, chargpt);
    run(command);
    json_object *root = json_object_from_file(summary), *value;
    if (root == NULL || !json_object_object_get_ex(root, "steps_per_second", &value) || value == NULL)
        fail("no steps a second in the summary of", command);
    double ms = 1e3 / json_object_get_double(value);
    json_object_put(root);
    return ms;
}

static double
least(const double *values, int count)
{
    double most_quick = values[0];
    for (int i = 1; i < count; ++i)
        most_quick = values[i] < most_quick ? values[i] : most_quick;
    return most_quick;
}

static void
measure_rounds(struct report *report, int pairs)
{
    static double by_plan[PAIRS_AT_MOST], annotated[PAIRS_AT_MOST], ratios[PAIRS_AT_MOST];
    char options[PATH_MAX + 32], program[PATH_MAX];
    snprintf(program, sizeof(program), "samples/chargpt_plain --batch 4 --steps 40 %s", chargpt);
    make_plan("chargpt", program);
    snprintf(options, sizeof(options), "-n 2 --plan %s/chargpt.json", work);
    for (int i = 0; i < pairs; ++i) {
        by_plan[i] = step_ms(options, "chargpt_plain --batch 4 --steps 400");
        annotated[i] = step_ms("-n 2", "chargpt --batch 8 --steps 200");
        ratios[i] = by_plan[i] / annotated[i];
    }
    report_value(report, "chargpt, 4 layers: a round by plan, best", least(by_plan, pairs), "ms");
    report_value(report, "the same, annotated, best", least(annotated, pairs), "ms");
    report_figure(report, "by plan / annotated, best", least(by_plan, pairs) / least(annotated, pairs), "ratio",
                  BAR_AT_MOST, 1.05);
    report_ratio(report, "by plan / annotated", ratios, (size_t)pairs, 1.05);
}

/* ---- an operation ---- */

struct calls {
    double best, median;
};

/* Of a launch, in us: of batches with an even number in calls[0], of the others in calls[1]. */
static void
time_calls(const char *launch, struct calls calls[2])
{
    char command[COMMAND_BYTES], line[512];
    snprintf(command, sizeof(command), "%s %s/bench/plan_calls 1000 </dev/null", launch, folder);
    calls[0] = calls[1] = (struct calls){-1, -1};
    FILE *output = popen(command, "r");
    if (output == NULL)
        fail("cannot run ddprun", strerror(errno));
    while (fgets(line, sizeof(line), output) != NULL) {
        (void)sscanf(line, "even: best %lf, median %lf", &calls[0].best, &calls[0].median);
        (void)sscanf(line, "odd: best %lf, median %lf", &calls[1].best, &calls[1].median);
    }
    if (pclose(output) != 0 || calls[0].best < 0 || calls[1].best < 0)
        fail("no times from", command);
}

static void
measure_calls(struct report *report, int pairs)
{
    enum { DROPPED, MADE, ALONE, BARE, KINDS };
    static const char *const names[KINDS] = {"a launch that a rank passes over", "a launch that it makes",
                                             "a launch under ddprun -n 1", "a launch without ddprun"};
    static double best[KINDS][PAIRS_AT_MOST], median[KINDS][PAIRS_AT_MOST], ratios[PAIRS_AT_MOST];
    char by_plan[COMMAND_BYTES], alone[PATH_MAX + 64], name[120];
    struct calls calls[2];
    make_plan("calls", "bench/plan_calls");
    snprintf(by_plan, sizeof(by_plan),
             "XDG_CACHE_HOME=%s %s/bin/ddprun -q --device softgpu --share-gpu -n 2 --plan %s/calls.json", work, folder,
             work);
    snprintf(alone, sizeof(alone), "%s/bin/ddprun -q --device softgpu -n 1 --unannotated", folder);
    for (int i = 0; i < pairs; ++i) {
        time_calls(by_plan, calls);
        best[DROPPED][i] = calls[1].best;
        median[DROPPED][i] = calls[1].median;
        best[MADE][i] = calls[0].best;
        median[MADE][i] = calls[0].median;
        ratios[i] = calls[1].median / calls[0].median;
        time_calls(alone, calls);
        best[ALONE][i] = calls[0].best;
        median[ALONE][i] = calls[0].median;
        time_calls("", calls);
        best[BARE][i] = calls[0].best;
        median[BARE][i] = calls[0].median;
    }
    for (int kind = 0; kind < KINDS; ++kind) {
        snprintf(name, sizeof(name), "%s: best", names[kind]);
        report_value(report, name, least(best[kind], pairs), "us");
        snprintf(name, sizeof(name), "%s: median", names[kind]);
        report_value(report, name, report_median(median[kind], (size_t)pairs), "us");
    }
    report_ratio(report, "passed over / made", ratios, (size_t)pairs, 1.0);
}

static void
remove_work(void)
{
    char command[PATH_MAX];
    snprintf(command, sizeof(command), "rm -rf '%s'", work);
    (void)!system(command);
}

int
main(int argc, char **argv)
{
    struct report report = {.json = false};
    int pairs = 7;
    if (!report_take_options(&report, argc, argv, &pairs, PAIRS_AT_MOST))
        return 2;
    report_program_folder(folder, 2);
    if (mkdtemp(work) == NULL)
        fail("cannot make a folder", strerror(errno));
    atexit(remove_work);
    double load[1] = {-1.0};
    (void)getloadavg(load, 1);
    if (!report.json)
        printf("stand-in, %ld cores, load %.1f before, %d runs each, in turn\n", sysconf(_SC_NPROCESSORS_ONLN), load[0],
               pairs);
    measure_calls(&report, pairs);
    measure_rounds(&report, pairs);
    return 0;
}

/*
 * overlap.c - how near is a step to what overlap can reach? bench/overlap [--json] [--steps N] [--ranks N].
 *
 * A trainer whose layers take time but no core (tests/trainers/paced) on the stand-in's model of a link, with small
 * gradients and a slow link, so that two cores are enough: communication takes 0.8 of backward. Three runs in turn:
 * buckets as measured (no step tries another way), buckets of 25 MiB, and without overlap. Of each step the trainer's
 * own events tell backward and step end; ddprun's trace tells what was exposed, what the plan had promised, and the
 * bound. Medians over the second half of the steps.
 */
#include "report.h"

#include <json-c/json.h>

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS_AT_MOST = 1000, STEPS_AT_LEAST = 50, LARGE_TENSORS = 8 };

/* Of one all-reduce of one large tensor: latency and bytes over bandwidth. 8 of them are 0.8 of backward. */
static const double layer_ms = 40.0, latency_ms = 6.4, tensor_kib = 64.0, gbytes_per_s = 0.00256;

static char folder[PATH_MAX], work[] = "/tmp/ddprun-overlap-XXXXXX";
static int steps = 60, ranks = 2;

static double
communication_ms(void)
{
    return LARGE_TENSORS * (latency_ms + tensor_kib * 1024.0 / gbytes_per_s / 1e6);
}

/* Medians of one run, in ms; negative: the trace does not say. */
struct outcome {
    double backward, step_end, exposed, predicted, bound;
};

static void
fail(const char *what, const char *detail)
{
    fprintf(stderr, "bench: %s: %s\n", what, detail);
    exit(1);
}

/* A line of some rank. The one that waited least came last: the others waited for it, too. */
static void
take_times(const char *line, struct outcome *outcome)
{
    double backward, step_end;
    const char *found = strstr(line, "backward ");
    if (found == NULL || sscanf(found, "backward %lf ms, step end %lf ms", &backward, &step_end) != 2)
        return;
    if (outcome->step_end < 0.0 || step_end - backward < outcome->step_end - outcome->backward) {
        outcome->backward = backward;
        outcome->step_end = step_end;
    }
}

static void
run(const char *name, const char *options, struct outcome *outcome)
{
    char command[3 * PATH_MAX], line[512];
    snprintf(command, sizeof(command),
             "SOFTGPU_LINK=latency_us=%g,gbytes_per_s=%g XDG_CACHE_HOME=%s %s/bin/ddprun -q -n %d %s --trace %s/%s "
             "%s/tests/trainers/paced --layers %d --kib %g --layer-us %g --forward-us 20000 --steps %d </dev/null",
             1000.0 * latency_ms, gbytes_per_s, work, folder, ranks, options, work, name, folder, 2 * LARGE_TENSORS,
             tensor_kib, 1000.0 * layer_ms, steps);
    FILE *output = popen(command, "r");
    if (output == NULL)
        fail("cannot run ddprun", strerror(errno));
    *outcome = (struct outcome){-1, -1, -1, -1, -1};
    while (fgets(line, sizeof(line), output) != NULL)
        take_times(line, outcome);
    if (pclose(output) != 0 || outcome->step_end < 0.0)
        fail("the trainer has failed", command);
}

/* One field of the trace's lines of the second half; its median in ms, or -1. */
static double
median_of(const char *name, int rank, const char *field)
{
    char path[PATH_MAX], *line = NULL;
    double values[STEPS_AT_MOST];
    size_t count = 0, capacity = 0;
    snprintf(path, sizeof(path), "%s/%s/rank-%d.jsonl", work, name, rank);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        fail(path, strerror(errno));
    for (int step = 0; getline(&line, &capacity, file) > 0;) {
        json_object *entry = json_tokener_parse(line), *value;
        step += json_object_object_get_ex(entry, "step", &value);
        if (step > steps / 2 && !json_object_object_get_ex(entry, "control", NULL) && count < STEPS_AT_MOST &&
            json_object_object_get_ex(entry, field, &value))
            values[count++] = json_object_get_double(value) / 1000.0;
        json_object_put(entry);
    }
    free(line);
    fclose(file);
    return count > 0 ? report_median(values, count) : -1.0;
}

/* Of the rank that waited least, again. */
static void
read_trace(const char *name, struct outcome *outcome)
{
    outcome->exposed = median_of(name, 0, "released_us");
    for (int r = 1; r < ranks; ++r) {
        double theirs = median_of(name, r, "released_us");
        outcome->exposed = theirs < outcome->exposed ? theirs : outcome->exposed;
    }
    outcome->predicted = median_of(name, 0, "predicted_us");
    outcome->bound = median_of(name, 0, "bound_us");
}

static void
measure(struct report *report)
{
    struct outcome measured, fixed, none;
    run("measured", "", &measured);
    read_trace("measured", &measured);
    run("fixed", "--bucket-mb 25", &fixed);
    read_trace("fixed", &fixed);
    run("none", "--no-overlap", &none);
    read_trace("none", &none);
    if (measured.predicted < 0.0)
        fail("no measured plan took effect", "try more --steps");

    report_value(report, "communication / backward, by the model of the link", communication_ms() / measured.backward,
                 "ratio");
    report_figure(report, "step end / (backward + bound)", measured.step_end / (measured.backward + measured.bound),
                  "ratio", BAR_AT_MOST, 1.05);
    report_figure(report, "exposed, off from what the plan predicted by",
                  100.0 * fabs(measured.exposed / measured.predicted - 1.0), "%", BAR_AT_MOST, 10.0);
    report_value(report, "backward", measured.backward, "ms");
    report_value(report, "bound of what is exposed", measured.bound, "ms");
    report_value(report, "exposed, as the plan predicted", measured.predicted, "ms");
    report_value(report, "exposed, measured plan", measured.exposed, "ms");
    report_value(report, "exposed, buckets of 25 MiB", fixed.exposed, "ms");
    report_value(report, "exposed, without overlap", none.exposed, "ms");
    report_value(report, "step end, measured plan", measured.step_end, "ms");
    report_value(report, "step end, buckets of 25 MiB", fixed.step_end, "ms");
    report_value(report, "step end, without overlap", none.step_end, "ms");
    report_figure(report, "step end, without overlap / measured plan", none.step_end / measured.step_end, "ratio",
                  BAR_AT_LEAST, 1.0);
}

static int
usage(FILE *out, int code)
{
    fprintf(out,
            "Usage: overlap [--json] [--steps N] [--ranks N]\n"
            "Runs a trainer on the stand-in's model of a link, and compares its steps with what overlap can reach.\n\n"
            "  --json     one JSON object a figure and line: name, value, unit, bar, holds\n"
            "  --steps N  of each of the three runs, %d to %d (default 60: about a minute and a half in all)\n"
            "  --ranks N  2 or 4 (default 2)\n"
            "  --help     print this\n\n"
            "Exits with 0 when it has measured, whether bars hold or not; 1 when a run fails; 2 for a mistake on the\n"
            "command line.\n",
            STEPS_AT_LEAST, STEPS_AT_MOST);
    return code;
}

static bool
take_number(int argc, char **argv, int *i, int least, int most, int *number)
{
    if (*i + 1 >= argc || atoi(argv[*i + 1]) < least || atoi(argv[*i + 1]) > most)
        return false;
    *number = atoi(argv[++*i]);
    return true;
}

static void
find_folder(void)
{
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    for (int i = 0; i < 2 && length > 0; ++i) {
        char *slash = strrchr(folder, '/');
        if (slash != NULL)
            *slash = '\0';
    }
}

int
main(int argc, char **argv)
{
    struct report report = {.json = false};
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--json") == 0)
            report.json = true;
        else if (strcmp(argv[i], "--help") == 0)
            return usage(stdout, 0);
        else if ((strcmp(argv[i], "--steps") != 0 ||
                  !take_number(argc, argv, &i, STEPS_AT_LEAST, STEPS_AT_MOST, &steps)) &&
                 (strcmp(argv[i], "--ranks") != 0 || !take_number(argc, argv, &i, 2, 4, &ranks)))
            return usage(stderr, 2);
    }
    find_folder();
    if (mkdtemp(work) == NULL)
        fail("cannot make a folder", strerror(errno));
    double load[1] = {-1.0};
    (void)getloadavg(load, 1);
    if (!report.json)
        printf("stand-in, %ld cores, load %.1f; %d ranks, %d steps; %d layers of %g ms with a gradient of %g KiB and\n"
               "one of 256 bytes each; link: %g ms latency, %.4g GB/s\n",
               sysconf(_SC_NPROCESSORS_ONLN), load[0], ranks, steps, LARGE_TENSORS, layer_ms, tensor_kib, latency_ms,
               gbytes_per_s);
    measure(&report);

    char command[PATH_MAX];
    snprintf(command, sizeof(command), "rm -rf '%s'", work);
    return system(command) == 0 ? 0 : 1;
}

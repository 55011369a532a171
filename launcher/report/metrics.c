/*
 * metrics.c - see metrics.h.
 */
#include "launcher/report/metrics.h"

#include "launcher/common/xcalloc.h"
#include "launcher/output/whole_file.h"
#include "launcher/watch/pace.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS UINT64_C(10000000000)

struct metrics {
    struct side_file file;
    struct metrics_job job;
    char name[HOST_NAME_MAX + 16];
    uint64_t written_ns; /* 0: not yet */
};

struct metrics *
metrics_new(const char *path, const char *program, unsigned restarts)
{
    if (path == NULL)
        return NULL;
    struct metrics *metrics = xcalloc(1, sizeof(*metrics));
    metrics->file = (struct side_file){.path = path, .option = "--metrics", .loss = "the job goes on"};
    char host[HOST_NAME_MAX + 1] = "";
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(metrics->name, sizeof(metrics->name), "%s:%d", host, (int)getpid());
    const char *slash = strrchr(program, '/');
    metrics->job = (struct metrics_job){metrics->name, slash != NULL ? slash + 1 : program, restarts};
    return metrics;
}

/* ---- the text ---- */

/* Where figures go, and the labels that all have. */
struct text {
    FILE *out;
    const struct metrics_job *job;
};

static void
put_head(const struct text *text, const char *name, const char *type, const char *help)
{
    fprintf(text->out, "# HELP ddprun_%s %s\n# TYPE ddprun_%s %s\n", name, help, name, type);
}

/* As the format wants it in a label. */
static void
put_label(FILE *out, const char *name, const char *value, const char *before)
{
    fprintf(out, "%s%s=\"", before, name);
    for (; *value != '\0'; ++value) {
        if (*value == '\n')
            fputs("\\n", out);
        else
            fprintf(out, "%s%c", *value == '"' || *value == '\\' ? "\\" : "", *value);
    }
    fputc('"', out);
}

/* The name and the labels, up to a figure's own. */
static void
put_name(const struct text *text, const char *name)
{
    fprintf(text->out, "ddprun_%s", name);
    put_label(text->out, "job", text->job->name, "{");
    put_label(text->out, "program", text->job->program, ",");
}

/* What is not known (NAN) has no line. */
static void
put(const struct text *text, const char *name, const char *type, const char *help, double value)
{
    if (isnan(value))
        return;
    put_head(text, name, type, help);
    put_name(text, name);
    fprintf(text->out, "} %.12g\n", value);
}

static double
seconds_of(uint64_t ns, bool known)
{
    return known ? (double)ns * 1e-9 : NAN;
}

static void
put_pace(const struct text *out, const struct rank_view *ranks, int count)
{
    struct pace pace = pace_of(ranks, count);
    bool known = pace.count > 0, bounded = known && pace.bound_ns != UINT64_MAX;
    put(out, "steps_per_second", "gauge", "Mean from the first DDP_STEP on.",
        pace.steps_per_s > 0.0 ? pace.steps_per_s : NAN);
    put(out, "items_per_second", "gauge", "Items that DDP_SHARD shares out, on all ranks together.",
        pace.items_per_s > 0.0 ? pace.items_per_s : NAN);
    put(out, "exposed_seconds", "gauge", "What a step waits for the network, median of the last steps.",
        seconds_of(pace.exposed_ns, known));
    put(out, "exposed_bound_seconds", "gauge", "The least that any buckets would leave exposed.",
        seconds_of(pace.bound_ns, bounded));
    put(out, "slowed_seconds", "gauge", "By how much collectives slow a step's own work, as tried last.",
        seconds_of(ranks[0].slowed_ns, ranks[0].trial_count > 0));
    put(out, "waiting_seconds", "gauge", "What a step waits for other ranks; 0: less than matters.",
        seconds_of(pace.waiting_ns, pace.waiting_ns != UINT64_MAX));
    put(out, "straggler_rank", "gauge", "The rank that the others wait for in most steps; -1: none.",
        known ? pace.straggler : NAN);
}

static void
put_job(const struct text *out, const struct rank_view *ranks, int count, int exit_code)
{
    const struct rank_view *first = &ranks[0];
    uint64_t steps = first->step;
    for (int i = 1; i < count; ++i)
        steps = ranks[i].step < steps ? ranks[i].step : steps;
    put(out, "running", "gauge", "1 while the job runs, 0 after its end.", exit_code < 0);
    put(out, "exit_code", "gauge", "How the job ended.", exit_code < 0 ? NAN : exit_code);
    put(out, "ranks", "gauge", "Ranks of the job.", count);
    put(out, "restarts_total", "counter", "Restarts after failures.", out->job->restarts);
    put(out, "steps_total", "counter", "Steps that all ranks have made.", (double)steps);
    put_pace(out, ranks, count);
    put(out, "step_bytes", "gauge", "Bytes that a step averages, of one rank.",
        first->gradient_count > 0 ? (double)first->gradient_bytes : NAN);
    put(out, "buckets", "gauge", "Buckets of a step.", first->bucket_count > 0 ? (double)first->bucket_count : NAN);
    put(out, "reduce_bytes_total", "counter", "Bytes of DDP_REDUCE, of one rank.",
        first->reduce_count > 0 ? (double)first->reduce_bytes : NAN);
    put(out, "checks_total", "counter", "Comparisons of parameters across ranks.", (double)first->check_count);
    put(out, "checked_step", "gauge", "The step of the last of them.",
        first->check_count > 0 ? (double)first->checked_step : NAN);
}

static void
put_means(const struct text *text, const struct rank_view *rank)
{
    if (rank->mean_count > 0)
        put_head(text, "mean", "gauge", "The last value of a DDP_MEAN.");
    for (unsigned i = 0; i < rank->mean_count; ++i) {
        double value = rank->means[i].value;
        put_name(text, "mean");
        put_label(text->out, "name", rank->means[i].name, ",");
        put_label(text->out, "place", rank->means[i].place, ",");
        fprintf(text->out,
                isnan(value)   ? "} NaN\n"
                : isinf(value) ? value > 0 ? "} +Inf\n" : "} -Inf\n"
                               : "} %.9g\n",
                value);
    }
}

static void
put_ranks(const struct text *text, const struct rank_view *ranks, int count)
{
    put_head(text, "rank_steps_total", "counter", "Steps of each rank.");
    for (int i = 0; i < count; ++i) {
        put_name(text, "rank_steps_total");
        fprintf(text->out, ",rank=\"%d\"", i);
        put_label(text->out, "host", ranks[i].host, ",");
        fprintf(text->out, "} %" PRIu64 "\n", ranks[i].step);
    }
}

char *
metrics_compose(const struct metrics_job *job, const struct rank_view *ranks, int count, int exit_code, double unix_s)
{
    char *bytes = NULL;
    size_t length;
    struct text text = {.out = open_memstream(&bytes, &length), .job = job};
    if (text.out == NULL)
        return xstrdup("");
    put_job(&text, ranks, count, exit_code);
    put_means(&text, &ranks[0]);
    put_ranks(&text, ranks, count);
    put(&text, "written_seconds", "gauge", "When this was written, as time of day.", unix_s);
    if (fclose(text.out) == 0)
        return bytes;
    free(bytes);
    return xstrdup("");
}

/* ---- the file ---- */

static void
write_file(struct metrics *metrics, const struct rank_view *ranks, int count, int exit_code)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char *text =
        metrics_compose(&metrics->job, ranks, count, exit_code, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    side_file_write(&metrics->file, text);
    free(text);
}

void
metrics_look(struct metrics *metrics, const struct rank_view *ranks, int count, uint64_t now_ns)
{
    if (metrics == NULL)
        return;
    side_file_look(&metrics->file, false);
    if (metrics->written_ns != 0 && now_ns - metrics->written_ns < PERIOD_NS)
        return;
    metrics->written_ns = now_ns;
    write_file(metrics, ranks, count, -1);
}

void
metrics_end(struct metrics *metrics, const struct rank_view *ranks, int count, int exit_code)
{
    if (metrics != NULL)
        write_file(metrics, ranks, count, exit_code);
}

void
metrics_free(struct metrics *metrics)
{
    if (metrics != NULL)
        side_file_look(&metrics->file, true);
    free(metrics);
}

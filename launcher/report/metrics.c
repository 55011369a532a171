/* metrics.c - see metrics.h. */
#include "launcher/report/metrics.h"

#include "base/clock.h"
#include "base/printable.h"
#include "launcher/common/network.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/whole_file.h"
#include "launcher/report/summary.h"
#include "launcher/watch/pace.h"
#include "launcher/watch/verdict.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define PERIOD_NS UINT64_C(10000000000)

struct metrics {
    struct side_file file;
    struct metrics_job job;
    char name[HOST_NAME_MAX + 16];
    uint64_t written_ns; /* 0: not yet */
};

struct metrics *
metrics_new(const char *path, const char *program, unsigned restarts, unsigned grace_s)
{
    if (path == NULL)
        return NULL;
    struct metrics *metrics = xcalloc(1, sizeof(*metrics));
    metrics->file = (struct side_file){.path = path, .option = "--metrics", .loss = "the job continues"};
    snprintf(metrics->name, sizeof(metrics->name), "%s:%d", host_name(), (int)getpid());
    metrics->job = (struct metrics_job){metrics->name, file_name_of(program), restarts, grace_s, 0};
    return metrics;
}

/* ---- the text ---- */

/* Where figures go, and the labels that all have. */
struct text {
    FILE *out;
    const struct metrics_job *job;
};

/* A name that ends in _total is a counter, any other one a gauge. */
static void
put_head(const struct text *text, const char *name, const char *help)
{
    size_t length = strlen(name);
    bool counts = length > 6 && strcmp(name + length - 6, "_total") == 0;
    fprintf(text->out, "# HELP ddprun_%s %s\n# TYPE ddprun_%s %s\n", name, help, name, counts ? "counter" : "gauge");
}

/* As the format wants it in a label: UTF-8, with three characters escaped. A program's name may hold any byte. */
static void
put_label(FILE *out, const char *name, const char *value, const char *before)
{
    char *text = xstrdup(value);
    printable_make(text, "\n");
    fprintf(out, "%s%s=\"", before, name);
    for (const char *at = text; *at != '\0'; ++at) {
        if (*at == '\n')
            fputs("\\n", out);
        else
            fprintf(out, "%s%c", *at == '"' || *at == '\\' ? "\\" : "", *at);
    }
    fputc('"', out);
    free(text);
}

/* The name and the labels, up to a figure's own. */
static void
put_name(const struct text *text, const char *name)
{
    fprintf(text->out, "ddprun_%s", name);
    put_label(text->out, "run", text->job->name, "{"); /* Prometheus has a label `job` of its own */
    put_label(text->out, "program", text->job->program, ",");
}

/* What is not known (NAN) has no line. */
static void
put(const struct text *text, const char *name, const char *help, double value)
{
    if (isnan(value))
        return;
    put_head(text, name, help);
    put_name(text, name);
    fprintf(text->out, "} %.12g\n", value);
}

/* What a figure of each kind is as a number; NAN: not known. */
#define NUMBER_count(value) (double)(value)
#define NUMBER_some(value)  ((value) > 0 ? (double)(value) : NAN)
#define NUMBER_index(value) ((value) >= 0 ? (double)(value) : NAN)
#define NUMBER_real(value)  (value)
#define NUMBER_ns(value)    ((value) != UINT64_MAX ? (double)(value)*1e-9 : NAN)

/* The figures of base/rank_fields.def, in their order. */
static void
put_figures(const struct text *text, const struct summary *job)
{
    const struct rank_view *first = &job->ranks[0];
    struct pace pace = pace_of(job->ranks, job->rank_count, NULL);
#define METRIC(kind, metric, help, value)        put(text, metric, help, NUMBER_##kind(value));
#define REPORTED(kind, key, metric, help, value) put(text, metric, help, NUMBER_##kind(value));
#include "base/rank_fields.def"
}

static void
put_means(const struct text *text, const struct rank_view *rank)
{
    if (rank->mean_count > 0)
        put_head(text, "mean", "The last value of a DDP_MEAN.");
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
    put_head(text, "rank_steps_total", "Steps of each rank.");
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
    const struct summary summary = {.ranks = ranks,
                                    .rank_count = count,
                                    .exit_code = exit_code,
                                    .restarts = job->restarts,
                                    .grace_s = job->grace_s,
                                    .signal = job->signal};
    put_figures(&text, &summary);
    put_means(&text, &ranks[0]);
    put_ranks(&text, ranks, count);
    put(&text, "written_seconds", "When this was written, as time of day.", unix_s);
    if (fclose(text.out) == 0)
        return bytes;
    free(bytes);
    return xstrdup("");
}

/* ---- the file ---- */

static void
write_file(struct metrics *metrics, const struct rank_view *ranks, int count, int exit_code)
{
    char *text = metrics_compose(&metrics->job, ranks, count, exit_code, (double)clock_unix_ns() * 1e-9);
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
metrics_end(struct metrics *metrics, const struct rank_view *ranks, int count, int exit_code, int signal)
{
    if (metrics == NULL)
        return;
    metrics->job.signal = signal;
    write_file(metrics, ranks, count, exit_code);
}

void
metrics_free(struct metrics *metrics)
{
    if (metrics != NULL)
        side_file_look(&metrics->file, true);
    free(metrics);
}

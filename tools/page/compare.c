/*
 * compare.c - `ddprun report A B`: the figures of two runs side by side, with the difference.
 */
#include "tools/page/page.h"

#include "base/message.h"
#include "tools/page/html.h"
#include "tools/predict/predict.h"
#include "tools/trace/facts.h"
#include "tools/trace/picture.h"

#include <math.h>
#include <stdio.h>

enum { RUNS = 2 };

struct figure {
    const char *name;
    enum { TIME, PLAIN, COUNT, PERCENT } kind;
    double values[RUNS];
};

static const char *
text_of(const struct figure *figure, int run, char text[FIGURE_BYTES])
{
    double value = figure->values[run];
    if (figure->kind == COUNT && value >= 0 && value < 1e18)
        return figure_count((uint64_t)value, text);
    return figure->kind == TIME      ? figure_time(value, text)
           : figure->kind == PERCENT ? figure_percent(value, text)
                                     : figure_plain(value, text);
}

static void
put_figure(const struct figure *figure)
{
    char first[FIGURE_BYTES], second[FIGURE_BYTES], change[FIGURE_BYTES] = "-";
    double a = figure->values[0], b = figure->values[1];
    if (isnan(a) && isnan(b))
        return;
    if (figure->kind == PERCENT && isfinite(b - a))
        snprintf(change, sizeof(change), "%+.1f points", 100 * (b - a));
    else if (isfinite(b / a) && a > 0)
        snprintf(change, sizeof(change), "%+.1f %%", 100 * (b / a - 1));
    (void)text_of(figure, 0, first);
    (void)text_of(figure, 1, second);
    /* figures have spaces and letters of two bytes: printf's widths count bytes */
    printf("%-32s %s%*s %s%*s %s\n", figure->name, first, 12 - figure_width(first), "", second,
           12 - figure_width(second), "", change);
}

static void
take(const struct trace *trace, int run, struct figure figures[])
{
    struct facts facts;
    char why[512] = "";
    struct prediction own = {.efficiency = NAN};
    facts_find(trace, NULL, &facts);
    struct model *model = model_of_facts(&facts, why, sizeof(why));
    if (model == NULL || facts.world < 2 || !model_predict(model, (unsigned)facts.world, NULL, &own))
        own.efficiency = NAN;
    const double values[] = {facts.world,
                             facts.step_us,
                             facts_percentile(&facts, 50),
                             facts_percentile(&facts, 95),
                             facts_percentile(&facts, 99),
                             facts.exposed_us,
                             facts.bound_us,
                             facts.waiting_us,
                             own.efficiency,
                             facts.steps_per_s,
                             facts_number(facts.summary, "items_per_second"),
                             facts_number(facts.summary, "buckets"),
                             facts_number(facts.summary, "steps"),
                             facts_number(facts.summary, "seconds") * 1e6};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); ++i)
        figures[i].values[run] = values[i];
    model_free(model);
    facts_free(&facts);
}

bool
page_compare(char *const folders[2], struct error *error)
{
    struct figure figures[] = {{"ranks", COUNT, {0}},
                               {"a step takes", TIME, {0}},
                               {"p50 of all steps", TIME, {0}},
                               {"p95", TIME, {0}},
                               {"p99", TIME, {0}},
                               {"exposed communication a step", TIME, {0}},
                               {"its lower bound", TIME, {0}},
                               {"waiting for ranks a step", TIME, {0}},
                               {"efficiency", PERCENT, {0}},
                               {"steps a second after start-up", PLAIN, {0}},
                               {"items a second", PLAIN, {0}},
                               {"buckets", COUNT, {0}},
                               {"steps", COUNT, {0}},
                               {"wall time", TIME, {0}}};
    for (int run = 0; run < RUNS; ++run) {
        struct trace trace;
        bool ok = picture_read(folders[run], false, &trace, error);
        for (size_t i = 0; ok && i < trace.remark_count; ++i)
            message_line("report: %s: %s", folders[run], trace.remarks[i]);
        if (ok)
            take(&trace, run, figures);
        trace_free(&trace);
        if (!ok)
            return false;
    }
    printf("%-32s %-12s %-12s %s\n", "", "first", "second", "difference");
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); ++i)
        put_figure(&figures[i]);
    return true;
}

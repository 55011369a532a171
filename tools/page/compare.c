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
#include <string.h>

enum { RUNS = 2, FIGURES = 14 };

struct figure {
    const char *name;
    const char *(*text)(double value, char text[FIGURE_BYTES]);
    double value;
};

static const char *
count_text(double value, char text[FIGURE_BYTES])
{
    return value >= 0 && value < 1e18 ? figure_count((uint64_t)value, text) : figure_plain(value, text);
}

static void
put_figure(const struct figure *one, const struct figure *other)
{
    char first[FIGURE_BYTES], second[FIGURE_BYTES], change[FIGURE_BYTES] = "-";
    double a = one->value, b = other->value;
    if (isnan(a) && isnan(b))
        return;
    if (one->text == figure_percent && isfinite(b - a))
        snprintf(change, sizeof(change), "%+.1f points", 100 * (b - a));
    else if (isfinite(b / a) && a > 0)
        snprintf(change, sizeof(change), "%+.1f %%", 100 * (b / a - 1));
    (void)one->text(a, first);
    (void)one->text(b, second);
    /* figures have spaces and letters of two bytes: printf's widths count bytes */
    printf("%-32s %s%*s %s%*s %s\n", one->name, first, 12 - figure_width(first), "", second, 12 - figure_width(second),
           "", change);
}

static void
take(const struct trace *trace, struct figure figures[FIGURES])
{
    struct facts facts;
    char why[512] = "";
    struct prediction own;
    facts_find(trace, NULL, &facts);
    struct model *model = model_of_facts(&facts, why, sizeof(why));
    bool known = model != NULL && facts.world > 1 && model_predict(model, (unsigned)facts.world, NULL, &own);
    const struct figure found[FIGURES] = {
        {"ranks", count_text, facts.world},
        {"a step takes", figure_time, facts.step_us},
        {"p50 of all steps", figure_time, facts_percentile(&facts, 50)},
        {"p95", figure_time, facts_percentile(&facts, 95)},
        {"p99", figure_time, facts_percentile(&facts, 99)},
        {"exposed communication a step", figure_time, facts.exposed_us},
        {"its lower bound", figure_time, facts.bound_us},
        {"waiting for ranks a step", figure_time, facts.waiting_us},
        {"efficiency", figure_percent, known ? own.efficiency : NAN},
        {"steps a second after start-up", figure_plain, facts.steps_per_s},
        {"items a second", figure_plain, facts_number(facts.summary, "items_per_second")},
        {"buckets", count_text, facts_number(facts.summary, "buckets")},
        {"steps", count_text, facts_number(facts.summary, "steps")},
        {"wall time", figure_time, facts_number(facts.summary, "seconds") * 1e6}};
    memcpy(figures, found, sizeof(found));
    model_free(model);
    facts_free(&facts);
}

bool
page_compare(char *const folders[2], struct error *error)
{
    struct figure figures[RUNS][FIGURES];
    for (int run = 0; run < RUNS; ++run) {
        struct trace trace;
        bool ok = picture_read(folders[run], false, &trace, error);
        for (size_t i = 0; ok && i < trace.remark_count; ++i)
            message_line("report: %s: %s", folders[run], trace.remarks[i]);
        if (ok)
            take(&trace, figures[run]);
        trace_free(&trace);
        if (!ok)
            return false;
    }
    printf("%-32s %-12s %-12s %s\n", "", "first", "second", "difference");
    for (size_t i = 0; i < FIGURES; ++i)
        put_figure(&figures[0][i], &figures[1][i]);
    return true;
}

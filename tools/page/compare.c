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
#include <string.h>

enum { RUNS = 2, FIGURES = 14 };

struct figure {
    const char *name;
    enum { TIME, PLAIN, COUNT, PERCENT } kind;
    double value;
};

static const char *
text_of(const struct figure *figure, char text[FIGURE_BYTES])
{
    double value = figure->value;
    if (figure->kind == COUNT && value >= 0 && value < 1e18)
        return figure_count((uint64_t)value, text);
    return figure->kind == TIME      ? figure_time(value, text)
           : figure->kind == PERCENT ? figure_percent(value, text)
                                     : figure_plain(value, text);
}

static void
put_figure(const struct figure *one, const struct figure *other)
{
    char first[FIGURE_BYTES], second[FIGURE_BYTES], change[FIGURE_BYTES] = "-";
    double a = one->value, b = other->value;
    if (isnan(a) && isnan(b))
        return;
    if (one->kind == PERCENT && isfinite(b - a))
        snprintf(change, sizeof(change), "%+.1f points", 100 * (b - a));
    else if (isfinite(b / a) && a > 0)
        snprintf(change, sizeof(change), "%+.1f %%", 100 * (b / a - 1));
    (void)text_of(one, first);
    (void)text_of(other, second);
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
    const struct figure found[FIGURES] = {{"ranks", COUNT, facts.world},
                                          {"a step takes", TIME, facts.step_us},
                                          {"p50 of all steps", TIME, facts_percentile(&facts, 50)},
                                          {"p95", TIME, facts_percentile(&facts, 95)},
                                          {"p99", TIME, facts_percentile(&facts, 99)},
                                          {"exposed communication per step", TIME, facts.exposed_us},
                                          {"its lower bound", TIME, facts.bound_us},
                                          {"waiting for ranks per step", TIME, facts.waiting_us},
                                          {"efficiency", PERCENT, known ? own.efficiency : NAN},
                                          {"steps per second after start-up", PLAIN, facts.steps_per_s},
                                          {"items per second", PLAIN, facts_number(facts.summary, "items_per_second")},
                                          {"buckets", COUNT, facts_number(facts.summary, "buckets")},
                                          {"steps", COUNT, facts_number(facts.summary, "steps")},
                                          {"wall time", TIME, facts_number(facts.summary, "seconds") * 1e6}};
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

/*
 * spread.c - how steps differ over the run: percentiles and a histogram of their durations, and what was exposed,
 * waited for and done per second as the run went on. Of all steps in the trace but control steps.
 */
#include "tools/page/html.h"
#include "tools/page/sections.h"

#include "launcher/common/xcalloc.h"

#include <math.h>
#include <stdlib.h>

enum { BARS = 40, HISTOGRAM_HEIGHT = 140, HISTOGRAM_AXIS = 20, CURVE_HEIGHT = 150, SPANS = 60 };

static void
put_percentiles(FILE *out, const struct facts *facts)
{
    static const unsigned wanted[] = {50, 95, 99};
    char text[FIGURE_BYTES];
    size_t count = 0;
    for (size_t i = 0; i < facts->step_count; ++i)
        count += !facts->steps[i].control && !isnan(facts->steps[i].middle_us);
    html_put(
        out,
        "<p id='run-percentiles'>Percentiles of %s steps in the trace (start-up included, control steps excluded):",
        figure_count(count, text));
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); ++i)
        html_put(out, "%s <strong>p%u</strong> %s", i > 0 ? "," : "", wanted[i],
                 figure_time(facts_percentile(facts, wanted[i]), text));
    fputs(".</p>\n", out);
}

/* From the fastest step to a little beyond p99; the last bar has all that took longer. */
static void
put_histogram(FILE *out, const struct facts *facts)
{
    char text[FIGURE_BYTES];
    size_t bars[BARS] = {0}, most = 0;
    double from = facts_percentile(facts, 0), to = from + 1.25 * (facts_percentile(facts, 99) - from);
    if (!(to > from))
        return;
    for (size_t i = 0; i < facts->step_count; ++i) {
        const struct step_facts *step = &facts->steps[i];
        if (step->control || isnan(step->middle_us))
            continue;
        size_t bar = (size_t)fmin((step->middle_us - from) / (to - from) * BARS, BARS - 1);
        most = ++bars[bar] > most ? bars[bar] : most;
    }
    fputs("<h3>Distribution of step durations</h3>\n", out);
    chart_open(out, "steps-histogram", "chart", HISTOGRAM_HEIGHT + HISTOGRAM_AXIS,
               "Histogram of the durations of steps", "Bars from the fastest steps on the left to the slowest.");
    for (int i = 0; i < BARS; ++i) {
        double height = (double)HISTOGRAM_HEIGHT * (double)bars[i] / (double)most;
        if (bars[i] > 0)
            html_put(out,
                     "<rect class='plain' x='%.2f%%' y='%.1f' width='%.2f%%' height='%.1f'><title>%zu from "
                     "%s%s</title></rect>\n",
                     100.0 * i / BARS, HISTOGRAM_HEIGHT - height, 90.0 / BARS, height, bars[i],
                     figure_time(from + (to - from) * i / BARS, text), i == BARS - 1 ? " on" : "");
    }
    html_put(out, "<text class='tick' x='0' y='%d'>%s</text>\n", HISTOGRAM_HEIGHT + 15, figure_time(from, text));
    html_put(out, "<text class='tick' x='50%%' y='%d' text-anchor='middle'>%s</text>\n", HISTOGRAM_HEIGHT + 15,
             figure_time((from + to) / 2, text));
    html_put(out, "<text class='tick' x='100%%' y='%d' text-anchor='end'>%s and longer</text>\n</svg>\n",
             HISTOGRAM_HEIGHT + 15, figure_time(to, text));
}

static void
put_over_time(FILE *out, const char *id, const char *title, const double *x, double *y, size_t count)
{
    struct curve curve = {.id = id,
                          .title = title,
                          .description = "The value of each step.",
                          .x = x,
                          .y = y,
                          .count = count,
                          .from_zero = true,
                          .top = NAN,
                          .height = CURVE_HEIGHT};
    html_put(out, "<div><h3>%s</h3>\n", title);
    chart_curve(out, &curve);
    fputs("</div>\n", out);
}

/* Over a sixtieth of the run each, on the clock of the lowest rank's device. */
static void
take_rates(const struct facts *facts, double *y)
{
    size_t span = facts->step_count / SPANS + 1;
    for (size_t i = 0; i < facts->step_count; ++i) {
        const struct step_facts *now = &facts->steps[i], *before = &facts->steps[i >= span ? i - span : 0];
        const struct trace_step *last = facts_step_of(&facts->ranks[0], now->number);
        const struct trace_step *first = facts_step_of(&facts->ranks[0], before->number);
        double seconds = (double)(last->boundary_ns - first->boundary_ns) / 1e9;
        y[i] = i >= span && seconds > 0 ? (double)(now->number - before->number) / seconds : NAN;
    }
}

void
section_spread(FILE *out, const struct facts *facts)
{
    html_section(out, "spread", "How steps differ", "Durations are medians over all ranks, without control steps.");
    if (facts->step_count < WAITING_LEAST || isnan(facts_percentile(facts, 50))) {
        fputs("<p>Too few steps have times of all ranks.</p>\n"
              "</section>\n",
              out);
        return;
    }
    size_t count = facts->step_count;
    double *x = xcalloc(3 * count, sizeof(*x)), *share = x + count, *rate = x + 2 * count;
    for (size_t i = 0; i < count; ++i) {
        const struct step_facts *step = &facts->steps[i];
        x[i] = (double)step->number;
        share[i] = step->control ? NAN : fmin(100, 100 * fmax(step->last.waited, 0) / step->middle_us);
    }
    take_rates(facts, rate);
    put_percentiles(out, facts);
    put_histogram(out, facts);
    fputs("<div class='curves'>\n", out);
    put_over_time(out, "exposed-curve", "Exposed communication, percent of the step", x, share, count);
    put_over_time(out, "rate-curve", "Steps per second", x, rate, count);
    fputs("</div>\n</section>\n", out);
    free(x);
}

/*
 * means.c - the curves of DDP_MEAN, as rank 0 has them: one for each name and place.
 */
#include "tools/page/html.h"
#include "tools/page/sections.h"

#include "launcher/common/xcalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CURVES = 12, CHART_HEIGHT = 160 };

static bool
is_same_mean(const struct trace_mean *a, const struct trace_mean *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->place, b->place) == 0;
}

/* The first of its name and place; its number among these, or -1: an earlier one is. */
static bool
is_first(const struct trace_run *run, size_t i)
{
    for (size_t k = 0; k < i; ++k) {
        if (is_same_mean(&run->means[k], &run->means[i]))
            return false;
    }
    return true;
}

static void
put_mean(FILE *out, const struct trace_run *run, size_t first, size_t number)
{
    const struct trace_mean *mean = &run->means[first];
    double *x = xcalloc(run->mean_count, sizeof(*x)), *y = xcalloc(run->mean_count, sizeof(*y));
    char id[32], text[FIGURE_BYTES];
    size_t count = 0;
    for (size_t i = first; i < run->mean_count; ++i) {
        bool grows = count == 0 || (double)run->means[i].after_step > x[count - 1];
        if (!is_same_mean(&run->means[i], mean) || !grows)
            continue;
        x[count] = (double)run->means[i].after_step;
        y[count++] = run->means[i].value;
    }
    snprintf(id, sizeof(id), "mean-%zu", number);
    fputs("<div><h3>", out);
    html_text(out, mean->name);
    fputs(" <span>", out);
    html_text(out, mean->place);
    html_put(out, " &#183; last %s</span></h3>\n", figure_plain(y[count - 1], text));
    struct curve curve = {.id = id,
                          .title = mean->name,
                          .description = "The value after each step.",
                          .x = x,
                          .y = y,
                          .count = count,
                          .top = NAN,
                          .height = CHART_HEIGHT};
    chart_curve(out, &curve);
    fputs("</div>\n", out);
    free(x);
    free(y);
}

void
section_means(FILE *out, const struct facts *facts)
{
    const struct trace_run *run = facts->first;
    size_t shown = 0;
    html_section(out, "means", "DDP_MEAN", "Values that the program averages over all ranks, by step.");
    if (run->mean_count == 0)
        fputs("<p>The program calls no DDP_MEAN, or rank 0 has no trace.</p>\n", out);
    else
        fputs("<div class='curves'>\n", out);
    for (size_t i = 0; i < run->mean_count && shown < MOST_CURVES; ++i) {
        if (is_first(run, i))
            put_mean(out, run, i, shown++);
    }
    fputs(run->mean_count > 0 ? "</div>\n</section>\n" : "</section>\n", out);
}

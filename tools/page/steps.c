/*
 * steps.c - how long steps took, what each rank did in them, and which rank the others waited for.
 */
#include "tools/page/html.h"
#include "tools/page/sections.h"

#include "launcher/common/xcalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 64, CHART_HEIGHT = 220 };

/* A few steps may take many times as long as the others, which would then be a line at the bottom. */
static double
top_of(const struct facts *facts, size_t *above)
{
    double *most = xcalloc(facts->step_count + 1, sizeof(*most));
    double greatest_us = 0, top_us;
    for (size_t i = 0; i < facts->step_count; ++i) {
        most[i] = facts->steps[i].most_us;
        greatest_us = fmax(greatest_us, most[i]);
    }
    top_us = 3 * waiting_median(most, facts->step_count);
    free(most);
    *above = 0;
    for (size_t i = 0; i < facts->step_count; ++i)
        *above += facts->steps[i].most_us > top_us;
    return *above > 0 && greatest_us > 1.5 * top_us ? top_us : NAN;
}

/* Control steps, and where overlap went off or on. Room for all of them is in `marks`; returns how many there are. */
static size_t
take_marks(const struct facts *facts, struct chart_mark *marks)
{
    size_t count = 0;
    for (size_t i = 0; i < facts->first->overlap_count; ++i) {
        const struct trace_overlap *change = &facts->first->overlaps[i];
        if (change->group == facts->group)
            marks[count++] = (struct chart_mark){change->overlaps ? "on" : "off", (double)change->after_step + 1, NAN};
    }
    for (size_t i = 0; i < facts->step_count; ++i) {
        const struct step_facts *step = &facts->steps[i];
        if (step->control && !isnan(step->middle_us))
            marks[count++] = (struct chart_mark){"control", (double)step->number, step->middle_us};
    }
    return count;
}

static void
put_legend(FILE *out, const struct chart_mark *marks, size_t count)
{
    static const char *const meanings[][2] = {{"control", "control step: other overlap or buckets, to compare"},
                                              {"off", "overlap is off from here on"},
                                              {"on", "overlap is on again from here on"}};
    fputs(count > 0 ? "<div class='legend'>\n" : "", out);
    for (size_t m = 0; m < sizeof(meanings) / sizeof(meanings[0]); ++m) {
        size_t i = 0;
        while (i < count && strcmp(marks[i].kind, meanings[m][0]) != 0)
            ++i;
        if (i < count)
            chart_legend(out, meanings[m][0], isnan(marks[i].y), meanings[m][1]);
    }
    fputs(count > 0 ? "</div>\n" : "", out);
}

static void
put_curve(FILE *out, const struct facts *facts)
{
    size_t above, count = facts->step_count;
    double *columns = xcalloc(4 * count + 1, sizeof(*columns));
    struct chart_mark *marks = xcalloc(count + facts->first->overlap_count + 1, sizeof(*marks));
    size_t mark_count = take_marks(facts, marks);
    struct curve curve = {.id = "steps-curve",
                          .title = "Duration of each step",
                          .description =
                              "The curve is the median of all ranks; the band spans the fastest to the slowest rank.",
                          .x = columns,
                          .y = columns + count,
                          .low = columns + 2 * count,
                          .high = columns + 3 * count,
                          .count = count,
                          .from_zero = true,
                          .top = top_of(facts, &above),
                          .height = CHART_HEIGHT,
                          .is_time = true,
                          .marks = marks,
                          .mark_count = mark_count};
    for (size_t i = 0; i < count; ++i) {
        columns[i] = (double)facts->steps[i].number;
        columns[count + i] = facts->steps[i].middle_us;
        columns[2 * count + i] = facts->steps[i].least_us;
        columns[3 * count + i] = facts->steps[i].most_us;
    }
    put_legend(out, marks, mark_count);
    chart_curve(out, &curve);
    if (!isnan(curve.top))
        html_put(out, "<p class='caption'>%zu step%s above the scale of the chart.</p>\n", above,
                 above == 1 ? "" : "s");
    free(marks);
    free(columns);
}

static void
put_straggler(FILE *out, const struct facts *facts)
{
    char text[FIGURE_BYTES], waiting[WAITING_TEXT_BYTES];
    html_put(out, "<p id='run-waiting'>In these steps: %s", facts_waiting_text(facts, waiting));
    if (facts->waited.straggler >= 0)
        html_put(out, ". Without it, the other ranks would finish a step %s earlier",
                 figure_time(facts->ranks[facts->waited.straggler].kept_us, text));
    fputs(".</p>\n", out);
}

static void
put_rank(FILE *out, const struct facts *facts, const struct rank_facts *rank, double longest_us)
{
    char text[FIGURE_BYTES];
    const struct bar_part parts[] = {{"before", 100 * rank->before_us / longest_us, "before backward"},
                                     {"backward", 100 * rank->backward_us / longest_us, "backward"},
                                     {"network", 100 * facts->exposed_us / longest_us, "exposed communication"},
                                     {"ranks", 100 * rank->waiting_us / longest_us, "waits for other ranks"}};
    const double figures[] = {rank->before_us, rank->backward_us, facts->exposed_us, rank->waiting_us, rank->step_us};
    html_put(out, "<tr><th scope='row'>%d</th>", rank->run->rank);
    html_text_cell(out, rank->run->host);
    chart_bar_cell(out, parts, sizeof(parts) / sizeof(parts[0]));
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); ++i)
        html_figure_cell(out, figure_time(figures[i], text));
    html_figure_cell(out,
                     figure_percent(facts->counted > 0 ? (double)rank->last_count / (double)facts->counted : 0, text));
    html_figure_cell(out, figure_time(rank->kept_us, text));
    fputs("</tr>\n", out);
}

static void
put_ranks(FILE *out, const struct facts *facts)
{
    double longest_us = 0;
    size_t shown = facts->rank_count < MOST_RANKS ? facts->rank_count : MOST_RANKS;
    for (size_t r = 0; r < facts->rank_count; ++r) {
        const struct rank_facts *rank = &facts->ranks[r];
        double sum_us = (isnan(rank->before_us) ? 0 : rank->before_us) +
                        (isnan(rank->backward_us) ? 0 : rank->backward_us) + facts->exposed_us + rank->waiting_us;
        longest_us = fmax(longest_us, sum_us);
    }
    html_put(out,
             "<h3>What each rank does in a step</h3>\n"
             "<p class='caption'>Medians of steps %llu to %llu without control steps, except Waits (mean). The rank "
             "that arrives last in a step waits least. Delayed others: how long they waited for it.</p>\n"
             "<div class='legend'>\n",
             (unsigned long long)facts->first_counted, (unsigned long long)facts->last_counted);
    chart_legend_of_step(out);
    fputs("</div>\n", out);
    html_table(out, "Times by rank",
               "Rank|Host|A step|#Before|#Backward|#Exposed|#Waits|#Step|#Arrived last|#Delayed others");
    for (size_t r = 0; r < shown; ++r)
        put_rank(out, facts, &facts->ranks[r], longest_us);
    html_table_end(out, shown, facts->rank_count, "ranks");
    if (facts->rank_count > 1 && !isnan(facts->waiting_us))
        put_straggler(out, facts);
}

void
section_steps(FILE *out, const struct facts *facts)
{
    html_section(out, "step-times", "Step times by rank",
                 "Durations are measured on the device, from the end of one step to the end of the next. The curve is "
                 "the median of all ranks; the band spans the fastest to the slowest rank.");
    if (facts->group_count > 1)
        html_put(out, "<p class='caption'>Of %zu gradient groups this is group %d, the one with the most bytes.</p>\n",
                 facts->group_count, facts->group);
    if (facts->graph_steps > 0)
        html_put(out, "<p class='caption'>%zu steps in CUDA graphs have no times.</p>\n", facts->graph_steps);
    if (!isnan(facts_percentile(facts, 50))) {
        put_curve(out, facts);
        put_ranks(out, facts);
    } else {
        fputs("<p>No step has times of all ranks.</p>\n", out);
    }
    fputs("</section>\n", out);
}

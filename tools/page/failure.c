/*
 * failure.c - of a job that failed: which rank ended how, and what each did last; and what was warned of.
 */
#include "tools/page/html.h"
#include "tools/page/sections.h"

#include <json-c/json.h>

#include <math.h>
#include <string.h>

enum { MOST_RANKS = 64, MOST_WARNINGS = 64 };

static double
number_of(json_object *rank, const char *name)
{
    json_object *found;
    return json_object_object_get_ex(rank, name, &found) && json_object_is_type(found, json_type_int)
               ? (double)json_object_get_int64(found)
               : NAN;
}

static const char *
text_of(json_object *rank, const char *name)
{
    json_object *found;
    return json_object_object_get_ex(rank, name, &found) && json_object_is_type(found, json_type_string)
               ? json_object_get_string(found)
               : "";
}

/* The number of its last step in the trace; 0: it has none. */
static uint64_t
last_in_trace(const struct facts *facts, double number)
{
    for (size_t r = 0; r < facts->rank_count; ++r) {
        const struct rank_facts *rank = &facts->ranks[r];
        if (rank->run->rank == number && rank->step_count > 0)
            return rank->steps[rank->step_count - 1]->number;
    }
    return 0;
}

static void
put_rank(FILE *out, const struct facts *facts, json_object *rank)
{
    char text[FIGURE_BYTES];
    double number = number_of(rank, "rank"), steps = number_of(rank, "steps"), code = number_of(rank, "exit_code");
    uint64_t last = last_in_trace(facts, number);
    bool bad = text_of(rank, "signal")[0] != '\0' || code > 0;
    html_put(out, "<tr><th scope='row'>%.0f</th>", number);
    html_text_cell(out, text_of(rank, "host"));
    html_text_cell(out, text_of(rank, "gpu"));
    html_figure_cell(out, steps >= 0 && steps < 1e18 ? figure_count((uint64_t)steps, text) : "-");
    html_figure_cell(out, last > 0 ? figure_count(last, text) : "-");
    html_put(out, bad ? "<td class='bad'>" : "<td>");
    if (text_of(rank, "signal")[0] != '\0')
        html_put(out, "SIG");
    html_text(out, text_of(rank, "signal"));
    if (!isnan(code))
        html_put(out, "exit code %.0f", code);
    else if (!bad)
        fputs("with the job", out);
    fputs("</td></tr>\n", out);
}

/* The list of the summary; NULL: there is none. */
static json_object *
list_of(const struct facts *facts, const char *name)
{
    json_object *list;
    return json_object_object_get_ex(facts->summary, name, &list) && json_object_is_type(list, json_type_array) ? list
                                                                                                                : NULL;
}

static void
put_warning(FILE *out, json_object *warning)
{
    char text[FIGURE_BYTES];
    double rank = number_of(warning, "rank"), step = number_of(warning, "step"), count = number_of(warning, "count");
    if (isnan(rank))
        fputs("<tr><th scope='row'>ddprun</th>", out);
    else
        html_put(out, "<tr><th scope='row'>%.0f</th>", rank);
    html_figure_cell(out, step >= 0 ? figure_count((uint64_t)step, text) : "-");
    html_figure_cell(out, count >= 0 ? figure_count((uint64_t)count, text) : "-");
    html_text_cell(out, text_of(warning, "key"));
    html_text_cell(out, text_of(warning, "text"));
    fputs("</tr>\n", out);
}

void
section_warnings(FILE *out, const struct facts *facts)
{
    json_object *warnings = list_of(facts, "warnings");
    size_t count = warnings != NULL ? json_object_array_length(warnings) : 0;
    if (count == 0)
        return;
    html_section(out, "warnings", "Warnings",
                 "What was warned of: the first text of each kind, and how often it came.");
    fputs("<div class='box' tabindex='0' role='region' aria-label='Warnings'><table>\n<thead><tr>"
          "<th scope='col'>Rank</th><th scope='col' class='n'>After step</th><th scope='col' class='n'>Times</th>"
          "<th scope='col'>Kind</th><th scope='col'>First text</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < count && i < MOST_WARNINGS; ++i)
        put_warning(out, json_object_array_get_idx(warnings, i));
    fputs("</tbody></table></div>\n", out);
    if (count > MOST_WARNINGS)
        html_put(out, "<p class='caption'>And %zu more warnings.</p>\n", count - MOST_WARNINGS);
    fputs("</section>\n", out);
}

void
section_failure(FILE *out, const struct facts *facts)
{
    json_object *ranks = list_of(facts, "each_rank");
    if (!(facts_number(facts, "exit_code") > 0) || ranks == NULL)
        return;
    size_t count = json_object_array_length(ranks), shown = count < MOST_RANKS ? count : MOST_RANKS;
    html_section(out, "failure", "How it ended", "The steps that each rank had made, and how its process ended.");
    fputs("<div class='box' tabindex='0' role='region' aria-label='Ends'><table>\n<thead><tr><th scope='col'>Rank</th>"
          "<th scope='col'>Host</th><th scope='col'>GPU</th><th scope='col' class='n'>Steps</th>"
          "<th scope='col' class='n'>Last in the trace</th><th scope='col'>End</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < shown; ++i)
        put_rank(out, facts, json_object_array_get_idx(ranks, i));
    fputs("</tbody></table></div>\n", out);
    if (count > shown)
        html_put(out, "<p class='caption'>And %zu more ranks.</p>\n", count - shown);
    fputs("<h3>The last steps</h3>\n", out);
    picture_of_end(out, facts);
    fputs("</section>\n", out);
}

/*
 * failure.c - of a job that failed: which rank ended how, and what each did last; and what was warned of.
 */
#include "tools/page/html.h"
#include "tools/page/sections.h"

#include <json-c/json.h>

#include <math.h>

enum { MOST_RANKS = 64, MOST_WARNINGS = 64 };

static void
put_rank(FILE *out, json_object *rank)
{
    char text[FIGURE_BYTES];
    double number = facts_number(rank, "rank"), steps = facts_number(rank, "steps"),
           code = facts_number(rank, "exit_code");
    bool bad = facts_string(rank, "signal")[0] != '\0' || code > 0;
    html_put(out, "<tr><th scope='row'>%.0f</th>", number);
    html_text_cell(out, facts_string(rank, "host"));
    html_text_cell(out, facts_string(rank, "gpu"));
    html_figure_cell(out, steps >= 0 && steps < 1e18 ? figure_count((uint64_t)steps, text) : "-");
    html_put(out, bad ? "<td class='bad'>" : "<td>");
    if (facts_string(rank, "signal")[0] != '\0')
        html_put(out, "SIG");
    html_text(out, facts_string(rank, "signal"));
    if (!isnan(code))
        html_put(out, "exit code %.0f", code);
    else if (!bad)
        fputs("stopped with the job", out);
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
    double rank = facts_number(warning, "rank"), step = facts_number(warning, "step"),
           count = facts_number(warning, "count");
    if (isnan(rank))
        fputs("<tr><th scope='row'>ddprun</th>", out);
    else
        html_put(out, "<tr><th scope='row'>%.0f</th>", rank);
    html_figure_cell(out, step >= 0 ? figure_count((uint64_t)step, text) : "-");
    html_figure_cell(out, count >= 0 ? figure_count((uint64_t)count, text) : "-");
    html_text_cell(out, facts_string(warning, "key"));
    html_text_cell(out, facts_string(warning, "text"));
    fputs("</tr>\n", out);
}

void
section_warnings(FILE *out, const struct facts *facts)
{
    json_object *warnings = list_of(facts, "warnings");
    size_t count = warnings != NULL ? json_object_array_length(warnings) : 0;
    if (count == 0)
        return;
    html_section(out, "warnings", "Warnings", "For each kind of warning: the first text, and the number of warnings.");
    html_table(out, "Warnings", "Rank|#After step|#Times|Kind|First text");
    for (size_t i = 0; i < count && i < MOST_WARNINGS; ++i)
        put_warning(out, json_object_array_get_idx(warnings, i));
    html_table_end(out, MOST_WARNINGS, count, "warnings");
    fputs("</section>\n", out);
}

void
section_failure(FILE *out, const struct facts *facts)
{
    json_object *ranks = list_of(facts, "each_rank");
    if (!(facts_number(facts->summary, "exit_code") > 0) || ranks == NULL)
        return;
    size_t count = json_object_array_length(ranks), shown = count < MOST_RANKS ? count : MOST_RANKS;
    html_section(out, "failure", "How the job ended", "The completed steps of each rank, and the end of its process.");
    html_table(out, "Ends", "Rank|Host|GPU|#Steps|End");
    for (size_t i = 0; i < shown; ++i)
        put_rank(out, json_object_array_get_idx(ranks, i));
    html_table_end(out, shown, count, "ranks");
    fputs("</section>\n", out);
}

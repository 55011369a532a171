/*
 * settings.c - with which settings and versions it ran, and what was checked.
 */
#include "tools/page/html.h"
#include "tools/page/sections.h"

#include <json-c/json.h>

enum { MOST_SETTINGS = 40 };

static void
put_row(FILE *out, const char *name, const char *id, const char *value)
{
    html_put(out, "<tr><th scope='row'>");
    html_text(out, name);
    html_put(out, id != NULL ? "</th><td id='run-%s'>" : "</th><td>", id);
    html_text(out, value[0] != '\0' ? value : "-");
    fputs("</td></tr>\n", out);
}

static void
begin_table(FILE *out, const char *heading)
{
    html_put(out, "<div><h3>%s</h3><div class='box'><table><tbody>\n", heading);
}

static void
end_table(FILE *out)
{
    fputs("</tbody></table></div></div>\n", out);
}

static void
put_settings(FILE *out, const struct facts *facts)
{
    size_t count = 0;
    begin_table(out, "Settings");
    put_row(out, "program", NULL, facts->program);
    json_object_object_foreach(facts->settings, name, value)
    {
        const char *text = json_object_get_string(value);
        if (count++ < MOST_SETTINGS)
            put_row(out, name, NULL, text != NULL ? text : "");
    }
    end_table(out);
}

static void
put_number(FILE *out, const struct facts *facts, const char *name, const char *member)
{
    char text[FIGURE_BYTES];
    double value = facts_number(facts->summary, member);
    put_row(out, name, member, value >= 0 && value < 1e18 ? figure_count((uint64_t)value, text) : "");
}

static void
put_checks_and_versions(FILE *out, const struct facts *facts)
{
    double comparisons = facts_number(facts->summary, "comparisons");
    begin_table(out, "Checks and versions");
    put_number(out, facts, "comparisons of parameters across ranks", "comparisons");
    if (facts_number(facts->summary, "noise") > 0)
        put_number(out, facts, "comparisons that found rounding differences (all ranks then took rank 0's values)",
                   "noise");
    put_row(out, "hash of the parameters, the same on all ranks", "parameter_hash",
            comparisons > 0 ? facts_string(facts->summary, "parameter_hash") : "");
    put_number(out, facts, "elements of parameters compared", "parameter_elements");
    put_number(out, facts, "restarts", "restarts");
    put_row(out, "ddprun", "ddprun_version", facts_string(facts->summary, "ddprun_version"));
    put_row(out, "NCCL", "nccl_version", facts_string(facts->summary, "nccl_version"));
    end_table(out);
}

void
section_settings(FILE *out, const struct facts *facts)
{
    html_section(out, "settings", "Settings, versions, checks",
                 "The values in force, from the command line, the environment or the defaults.");
    if (facts->summary == NULL || facts->settings == NULL) {
        fputs("<p>The trace has no summary of the job: the job is still running, or it was killed.</p>\n"
              "</section>\n",
              out);
        return;
    }
    fputs("<div class='pair'>\n", out);
    put_settings(out, facts);
    put_checks_and_versions(out, facts);
    fputs("</div></section>\n", out);
}

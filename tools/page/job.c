/*
 * job.c - what the launcher has said of the job: how it ended on each rank, what was warned of, with which settings and
 * versions it ran, and what was checked.
 */
#include "tools/page/report.h"

#include <json-c/json.h>

#include <math.h>
#include <string.h>

enum { MOST_OBJECTS = 100 };

/* A section with a table of the objects of a list in the summary, whose columns are members of theirs; nothing, if
 * there are none. */
static void
put_objects(json_object *report, const struct facts *facts, const char *list_name, const char *id, const char *title,
            const char *caption, const char *columns)
{
    enum { MOST_MEMBERS = 8 };
    json_object *list, *value;
    if (!json_object_object_get_ex(facts->summary, list_name, &list) || !json_object_is_type(list, json_type_array) ||
        json_object_array_length(list) == 0)
        return;
    struct table table = report_table(report_section(report, id, title, caption), list_name, "", columns, MOST_OBJECTS);
    for (size_t i = 0; i < json_object_array_length(list); ++i) {
        json_object *object = json_object_array_get_idx(list, i);
        struct cell cells[MOST_MEMBERS] = {0};
        for (size_t c = 0; c < table.columns; ++c) {
            const char *name = facts_string(json_object_array_get_idx(report_list(table.object, "columns"), c), "name");
            bool is_text =
                json_object_object_get_ex(object, name, &value) && json_object_is_type(value, json_type_string);
            cells[c] = (struct cell){facts_number(object, name), is_text ? json_object_get_string(value) : NULL};
        }
        report_row(&table, cells);
    }
}

void
section_ends(json_object *report, const struct facts *facts)
{
    if (facts_number(facts->summary, "exit_code") > 0)
        put_objects(report, facts, "each_rank", "failure", "How the job ended",
                    "The completed steps of each rank, and the end of its process: a signal, an exit code, or neither, "
                    "if it was stopped with the job.",
                    "rank:count|host|gpu|steps:count|signal|exit_code:count");
    put_objects(report, facts, "warnings", "warnings", "Warnings",
                "How often each kind came, and its first text and step. Rows without a rank: from ddprun itself.",
                "rank:count|step:count|count:count|key|text");
}

/* A table of an object's members that are no lists. */
static void
put_members(json_object *section, const char *title, json_object *object)
{
    struct table table = report_table(section, title, "", "Name|Value", MOST_OBJECTS);
    json_object_object_foreach(object, name, value)
    {
        const char *text = json_object_get_string(value);
        if (!json_object_is_type(value, json_type_array) && !json_object_is_type(value, json_type_object))
            report_row(&table, ROW({.text = name}, {.text = text != NULL ? text : "-"}));
    }
}

void
section_settings(json_object *report, const struct facts *facts)
{
    json_object *section = report_section(report, "settings", "Settings, versions, checks",
                                          "The values in force, from the command line, the environment or the "
                                          "defaults; and the figures of --summary-json, which man ddprun explains.");
    if (facts->summary == NULL || facts->settings == NULL) {
        report_sentence(section, "notes",
                        "The trace has no summary of the job: the job is still running, or it was killed.");
        return;
    }
    put_members(section, "Settings", facts->settings);
    put_members(section, "Summary", facts->summary);
}

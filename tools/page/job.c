/*
 * job.c - what the launcher has said of the job: how it ended on each rank, what was warned of, with which settings and
 * versions it ran, and what was checked.
 */
#include "tools/page/report.h"

#include <json-c/json.h>

enum { MOST_OBJECTS = 100, MOST_MEMBERS = 7 };

/* A section with a table of the objects of a list in the summary: a column for each of the members. Nothing, if the
 * list is empty. */
static void
put_objects(json_object *report, const struct facts *facts, const char *list_name, const char *id, const char *title,
            const char *table_title, const char *caption, const char *const members[MOST_MEMBERS], const char *columns)
{
    json_object *list, *value;
    if (!json_object_object_get_ex(facts->summary, list_name, &list) || !json_object_is_type(list, json_type_array) ||
        json_object_array_length(list) == 0)
        return;
    struct table table =
        report_table(report_section(report, id, title, caption), table_title, "", columns, MOST_OBJECTS);
    for (size_t i = 0; i < json_object_array_length(list); ++i) {
        json_object *object = json_object_array_get_idx(list, i);
        struct cell cells[MOST_MEMBERS] = {0};
        for (size_t c = 0; c < table.columns; ++c) {
            bool is_text =
                json_object_object_get_ex(object, members[c], &value) && json_object_is_type(value, json_type_string);
            cells[c] = (struct cell){facts_number(object, members[c]), is_text ? json_object_get_string(value) : NULL};
        }
        report_row(&table, cells);
    }
}

void
section_ends(json_object *report, const struct facts *facts)
{
    if (facts_number(facts->summary, "exit_code") > 0)
        put_objects(
            report, facts, "each_rank", "failure", "How the job ended", "End of each rank",
            "A rank without signal and exit code was stopped with the job. Killed by ddprun after a signal that "
            "asked ranks to stop: waiting, for a rank that had left; grace, when the time of --grace was over.",
            (const char *const[MOST_MEMBERS]){"rank", "host", "gpu", "steps", "signal", "exit_code", "killed"},
            "Rank:count|Host|GPU|Steps:count|Signal|Exit code:count|Killed");
    put_objects(report, facts, "warnings", "warnings", "Warnings", "Kinds of warnings",
                "First text and step of each kind. Without a rank: from ddprun.",
                (const char *const[MOST_MEMBERS]){"rank", "step", "count", "key", "text"},
                "Rank:count|Step:count|Count:count|Kind|Text");
}

/* A table of an object's members that are known and no lists. */
static void
put_members(json_object *section, const char *title, json_object *object)
{
    struct table table = report_table(section, title, "closed", "Name|Value", MOST_OBJECTS);
    json_object_object_foreach(object, name, value)
    {
        const char *text = json_object_get_string(value);
        if (text != NULL && !json_object_is_type(value, json_type_array) &&
            !json_object_is_type(value, json_type_object))
            report_row(&table, ROW({.text = name}, {.text = text}));
    }
}

void
section_settings(json_object *report, const struct facts *facts)
{
    json_object *section = report_section(report, "settings", "Settings, versions, checks",
                                          "man ddprun explains options, and the figures of --summary-json.");
    if (facts->summary == NULL || facts->settings == NULL) {
        report_sentence(section, "notes",
                        "The trace has no summary of the job: the job is still running, or it was killed.");
        return;
    }
    if (facts->overlap != NULL && !facts->overlap->overlaps)
        report_sentence(section, "notes", "Overlap is off from step %llu on, because steps are shorter without it.",
                        (unsigned long long)facts->overlap->after_step + 1);
    put_members(section, "Settings", facts->settings);
    put_members(section, "Summary", facts->summary);
}

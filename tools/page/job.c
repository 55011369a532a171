/*
 * job.c - what the launcher has said of the job: how it ended on each rank, what was warned of, with which settings and
 * versions it ran, and what was checked.
 */
#include "tools/page/report.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

#include <json-c/json.h>

#include <math.h>

enum { MOST_OBJECTS = 100, MOST_MEMBERS = 9 };

/* The warning of an infinite value or NaN gets the rank and the step that the summary names. Returns the warning. */
static json_object *
add_place(json_object *warning, const struct facts *facts)
{
    static const char *const members[] = {"rank", "step"};
    json_object *first, *value;
    if (!json_object_object_get_ex(facts->summary, "nonfinite", &first))
        return warning;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); ++i) {
        if (json_object_object_get_ex(first, members[i], &value) && isnan(facts_number(warning, members[i])))
            json_object_object_add(warning, members[i], json_object_get(value));
    }
    return warning;
}

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
        if (strcmp(facts_string(object, "key"), "nonfinite") == 0) /* ddprun's warning, and about a rank */
            object = add_place(object, facts);
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
            (const char *const[MOST_MEMBERS]){"rank", "steps", "signal", "exit_code", "crash_place", "last_line",
                                              "killed", "host", "gpu"},
            "Rank:count|Steps:count|Signal|Exit code:count|Crashed at:code|Last line on stderr:code|Killed|Host|GPU");
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

/* ---- the run ---- */

/* A word as a shell needs it. */
static char *
quoted(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
    if (word[0] != '\0' && strspn(word, plain) == strlen(word))
        return xstrdup(word);
    return strchr(word, '\'') == NULL ? xasprintf("'%s'", word) : xasprintf("\"%s\"", word);
}

char *
command_text(const struct facts *facts)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = facts->arguments != NULL ? open_memstream(&text, &bytes) : NULL;
    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < json_object_array_length(facts->arguments); ++i) {
        const char *word = json_object_get_string(json_object_array_get_idx(facts->arguments, i));
        OWNED char *shown = quoted(word != NULL ? word : "");
        fprintf(out, "%s%s", i > 0 ? " " : "", shown);
    }
    fclose(out);
    return text;
}

/* What all ranks have in common, or "the first (and others)". */
static char *
common_text(json_object *each, const char *member)
{
    const char *first = facts_string(json_object_array_get_idx(each, 0), member);
    for (size_t i = 1; i < json_object_array_length(each); ++i) {
        if (strcmp(facts_string(json_object_array_get_idx(each, i), member), first) != 0)
            return xasprintf("%s, and others", first);
    }
    return xstrdup(first);
}

/* What ran, where, and on what. */
static void
put_run(json_object *section, const struct facts *facts)
{
    json_object *each;
    char ranks[32];
    OWNED char *command = command_text(facts);
    struct table table = report_table(section, "The run", "", "Name|Value:code", MOST_OBJECTS);
    if (!json_object_object_get_ex(facts->summary, "each_rank", &each) || !json_object_is_type(each, json_type_array))
        return;
    OWNED char *hosts = common_text(each, "host");
    OWNED char *devices = common_text(each, "gpu");
    snprintf(ranks, sizeof(ranks), "%d", facts->world);
    const struct {
        const char *name, *value;
    } rows[] = {{"command", command != NULL ? command : facts->program},
                {"folder", facts_string(facts->first->told, "folder")},
                {"ranks", ranks},
                {"host", hosts},
                {"device", devices},
                {"ddprun", facts_string(facts->summary, "ddprun_version")},
                {"NCCL", facts_string(facts->summary, "nccl_version")}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        if (rows[i].value[0] != '\0')
            report_row(&table, ROW({.text = rows[i].name}, {.text = rows[i].value}));
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
    for (size_t i = 0; i < facts->trace->remark_count && facts_number(facts->summary, "exit_code") > 0; ++i)
        report_sentence(section, "notes", "The trace is incomplete: %s", facts->trace->remarks[i]);
    put_run(section, facts);
    put_members(section, "Settings", facts->settings);
    put_members(section, "Summary", facts->summary);
}

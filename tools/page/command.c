/*
 * command.c - `ddprun report DIR -o FILE`, and `ddprun report A B`: the figures of two reports side by side, with their
 * difference; A and B are folders of traces, or pages.
 */
#include "tools/page/page.h"

#include "base/printable.h"
#include "launcher/common/file_read.h"
#include "tools/common/owned.h"
#include "tools/common/tool_options.h"
#include "tools/page/report.h"
#include "tools/trace/picture.h"

#include <json-c/json.h>

#include <math.h>

enum { PAGE_BYTES_AT_MOST = 1 << 28 };

/* Figures have spaces and letters of two bytes: printf's widths count bytes. */
static int
gap_behind(const char *figure)
{
    int width = 0;
    for (; *figure != '\0'; ++figure)
        width += ((unsigned char)*figure & 0xc0) != 0x80; /* UTF-8: what goes on in a character */
    return 12 - width;
}

/* Each may be NULL: this run does not know it. */
static void
put_figure(json_object *one, json_object *other)
{
    char first[FIGURE_BYTES], second[FIGURE_BYTES], change[FIGURE_BYTES] = "-";
    json_object *known = one != NULL ? one : other;
    OWNED char *name = xstrdup(facts_string(known, "name"));
    printable_make(name, ""); /* a page may be anyone's */
    const char *kind = facts_string(known, "kind");
    double a = facts_number(one, "value"), b = facts_number(other, "value");
    if (strcmp(kind, "share") == 0 && isfinite(b - a))
        snprintf(change, sizeof(change), "%+.1f points", 100 * (b - a));
    else if (isfinite(b / a) && a > 0)
        snprintf(change, sizeof(change), "%+.1f %%", 100 * (b / a - 1));
    (void)figure_text(kind, a, first);
    (void)figure_text(kind, b, second);
    printf("%-32s %s%*s %s%*s %s\n", name, first, gap_behind(first), "", second, gap_behind(second), "", change);
}

/* Those of the verdict; NULL: it has none, for it is no report. */
static json_object *
figures_of(json_object *report)
{
    json_object *sections, *figures = NULL;
    if (json_object_object_get_ex(report, "sections", &sections) && json_object_is_type(sections, json_type_array))
        (void)json_object_object_get_ex(json_object_array_get_idx(sections, REPORT_VERDICT), "figures", &figures);
    return json_object_is_type(figures, json_type_array) ? figures : NULL;
}

json_object *
report_of_page(const char *page)
{
    static const char begin[] = "<script type=\"application/json\" id=\"report\">"; /* as page.html has it */
    const char *at = strstr(page, begin);
    json_object *report = at != NULL ? json_tokener_parse(at + strlen(begin)) : NULL;
    if (facts_number(report, "ddprun_report") == REPORT_VERSION && figures_of(report) != NULL)
        return report;
    json_object_put(report);
    return NULL;
}

/* Of a trace's folder or a page's file. NULL: `error`. */
static json_object *
read_report(const char *path, struct error *error)
{
    struct trace trace;
    struct stat status;
    json_object *report = NULL;
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
        OWNED char *page = file_read(path, PAGE_BYTES_AT_MOST, NULL, NULL);
        if (page == NULL)
            (void)file_read_refused("the page ", path, "", error);
        else if ((report = report_of_page(page)) == NULL)
            (void)error_set(error, DDPRUN_EXIT_FAILURE,
                            "%s has no report of version %d; --page FILE and ddprun report DIR -o FILE write pages",
                            path, REPORT_VERSION);
        return report;
    }
    bool ok = picture_read(path, false, &trace, error);
    for (size_t i = 0; ok && i < trace.remark_count; ++i)
        message_line("report: %s: %s", path, trace.remarks[i]);
    if (ok)
        report = report_make(&trace);
    trace_free(&trace);
    return report;
}

/* The figure of this name; NULL: this run does not know it. */
static json_object *
figure_of(json_object *report, const char *id)
{
    json_object *figures = figures_of(report), *figure = NULL;
    for (size_t i = 0; figure == NULL && i < json_object_array_length(figures); ++i)
        if (strcmp(facts_string(json_object_array_get_idx(figures, i), "id"), id) == 0)
            figure = json_object_array_get_idx(figures, i);
    return figure;
}

/* Prints figures of both runs, then those of the second alone. Error: a report cannot be read, or has no steps. */
static bool
compare(char *const paths[2], struct error *error)
{
    json_object *one = read_report(paths[0], error), *other = one != NULL ? read_report(paths[1], error) : NULL;
    json_object *const both[2] = {one, other};
    if (other != NULL)
        printf("%-32s %-12s %-12s %s\n", "", "first", "second", "difference");
    for (int r = 0; r < 2 && other != NULL; ++r)
        for (size_t i = 0; i < json_object_array_length(figures_of(both[r])); ++i) {
            const char *id = facts_string(json_object_array_get_idx(figures_of(both[r]), i), "id");
            if (r == 0 || figure_of(one, id) == NULL)
                put_figure(figure_of(one, id), figure_of(other, id));
        }
    bool ok = other != NULL;
    json_object_put(one);
    json_object_put(other);
    return ok;
}

/* Two runs are compared, on standard output. */
static int
run_report(const struct command *command, const struct options *options)
{
    struct error error;
    char *const *words = options->program;
    if (words[1] != NULL && words[1][0] != '-' && words[2] != NULL && words[2][0] != '-' && words[3] == NULL)
        return command_end(compare(words + 1, &error), &error);
    return picture_run(&page_picture, command, options->program);
}

const struct command report_command = {
    .name = "report",
    .brief = "make an HTML page from a trace: lost time, late ranks, curves",
    .usage = "Usage: ddprun report DIR -o FILE\n"
             "       ddprun report A B\n\n"
             "Makes one HTML page from the trace that ddprun --trace DIR wrote: the speed of the\n"
             "run, lost time and how to save it, step times by rank, one step's timeline,\n"
             "late ranks, curves of DDP_MEAN, buckets and tensors, and the settings. The page\n"
             "needs no network. With A and B, each a trace's folder or a page, it prints the\n"
             "figures of the two runs side by side, with their difference.\n",
    .notes = "ddprun --page FILE makes the page at the end of a run.\n\n"
             "Exit codes: 0: written; the page and a line on stderr name missing parts;\n"
             "1: no readable trace, or FILE cannot be written; 2: wrong options.\n",
    .wants = "folder",
    .example = "ddprun report DIR -o report.html",
    .mixes = true,
    .rows = picture_rows,
    .run = run_report,
};

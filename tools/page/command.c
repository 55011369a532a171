/*
 * command.c - `ddprun report DIR -o FILE`, and `ddprun report A B`: the figures of two reports side by side, with their
 * difference.
 */
#include "tools/page/page.h"

#include "base/message.h"
#include "tools/common/tool_options.h"
#include "tools/page/report.h"
#include "tools/trace/picture.h"

#include <json-c/json.h>

#include <math.h>

/* Figures have spaces and letters of two bytes: printf's widths count bytes. */
static int
gap_behind(const char *figure)
{
    int width = 0;
    for (; *figure != '\0'; ++figure)
        width += ((unsigned char)*figure & 0xc0) != 0x80; /* UTF-8: what goes on in a character */
    return 12 - width;
}

static void
put_figure(json_object *one, json_object *other)
{
    char first[FIGURE_BYTES], second[FIGURE_BYTES], change[FIGURE_BYTES] = "-";
    const char *kind = facts_string(one, "kind");
    double a = facts_number(one, "value"), b = facts_number(other, "value");
    if (isnan(a) && isnan(b))
        return;
    if (strcmp(kind, "share") == 0 && isfinite(b - a))
        snprintf(change, sizeof(change), "%+.1f points", 100 * (b - a));
    else if (isfinite(b / a) && a > 0)
        snprintf(change, sizeof(change), "%+.1f %%", 100 * (b / a - 1));
    (void)figure_text(kind, a, first);
    (void)figure_text(kind, b, second);
    printf("%-32s %s%*s %s%*s %s\n", facts_string(one, "name"), first, gap_behind(first), "", second,
           gap_behind(second), "", change);
}

/* Those of the verdict, which are the same in all reports. */
static json_object *
figures_of(json_object *report)
{
    return report_list(json_object_array_get_idx(report_list(report, "sections"), REPORT_VERDICT), "figures");
}

/* NULL: `error`. */
static json_object *
read_report(const char *folder, struct error *error)
{
    struct trace trace;
    json_object *report = NULL;
    bool ok = picture_read(folder, false, &trace, error);
    for (size_t i = 0; ok && i < trace.remark_count; ++i)
        message_line("report: %s: %s", folder, trace.remarks[i]);
    if (ok) {
        struct run_clock *clocks = clocks_align(&trace);
        report = report_make(&trace, clocks);
        clocks_free(clocks, &trace);
    }
    trace_free(&trace);
    return report;
}

/* Prints them. Error: a trace cannot be read, or has no steps. */
static bool
compare(char *const folders[2], struct error *error)
{
    json_object *one = read_report(folders[0], error), *other = one != NULL ? read_report(folders[1], error) : NULL;
    size_t count = other != NULL ? json_object_array_length(figures_of(one)) : 0;
    if (other != NULL)
        printf("%-32s %-12s %-12s %s\n", "", "first", "second", "difference");
    for (size_t i = 0; i < count; ++i)
        put_figure(json_object_array_get_idx(figures_of(one), i), json_object_array_get_idx(figures_of(other), i));
    bool ok = other != NULL;
    json_object_put(one);
    json_object_put(other);
    return ok;
}

/* Two folders are compared, on standard output. */
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
    .brief = "make an HTML page from a trace: lost time, stragglers, curves",
    .usage = "Usage: ddprun report DIR -o FILE\n"
             "       ddprun report DIR DIR\n\n"
             "Makes one HTML page from the trace that ddprun --trace DIR wrote: the speed of the\n"
             "run, lost time and how to save it, step times by rank, one step's timeline,\n"
             "stragglers, curves of DDP_MEAN, buckets and tensors, and the settings. The page\n"
             "needs no network. With two folders it prints the figures of the two runs side by\n"
             "side, with their difference.\n",
    .notes = "ddprun --page FILE makes the page at the end of a run.\n\n"
             "Exit codes: 0: written; the page and a line on stderr name missing parts;\n"
             "1: no readable trace, or FILE cannot be written; 2: wrong options.\n",
    .wants = "folder",
    .example = "ddprun report DIR -o report.html",
    .mixes = true,
    .rows = picture_rows,
    .run = run_report,
};

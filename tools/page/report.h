/*
 * report.h - a report on a run, as data: sections with sentences, figures, tables and curves. docs/insight.md has its
 * form. It stands in the page as JSON, which page.js draws, and as text (html.c).
 *
 * Texts may come from outside: control characters and what is not UTF-8 become '?'. A number that is not known is NAN,
 * and null in the report. What a section is given belongs to it. One thread.
 */
#ifndef DDPRUN_TOOLS_PAGE_REPORT_H
#define DDPRUN_TOOLS_PAGE_REPORT_H

#include "tools/trace/step_table.h"

#include <string.h>

struct json_object;

enum { REPORT_VERSION = 1, REPORT_VERDICT = 1 /* the number of its section */, FIGURE_BYTES = 40 };

/* Adds a section at the end. `id` is a word, as are those of figures. */
struct json_object *report_section(struct json_object *report, const char *id, const char *title, const char *caption);

/* Adds a sentence to the section's list of this name: "notes", or "bad", which are of failures and stand first. A table
 * has "notes", too, above its rows. In the list "links" of a section a sentence leads to the section `target` (its id).
 */
void report_sentence(struct json_object *section, const char *list, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void report_link(struct json_object *section, const char *target, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * What a number is: "time" (microseconds), "bytes", "count", "share" (1: all) or "number". Kinds of texts are "text"
 * and "code". A figure's text has three digits and a unit, and is "-" where it is not known.
 */
enum figure_place {
    FIGURE_LEADS, /* in large type, above the sentences of its section */
    FIGURE_PLAIN,
    FIGURE_FOLDED, /* shows after a click */
};
void report_figure(struct json_object *section, const char *id, const char *name, const char *kind, double value,
                   const char *note, enum figure_place place);
const char *figure_text(const char *kind, double value, char text[FIGURE_BYTES]);
#define figure_time(us, text) figure_text("time", us, text)

/* A table of at most so many rows; it counts what is left out. */
struct table {
    struct json_object *object, *rows;
    size_t columns, most, count;
};

/* `columns`: their names, parted by '|'; after a ':' the kind of what is in one, or else it is text. `drawn`: what
 * page.js makes of it: "timeline", "curve", "parts" (bars of the parts of a step), "whole" (one bar, of the first row),
 * or ""; "closed": it opens by a click. */
struct table report_table(struct json_object *section, const char *title, const char *drawn, const char *columns,
                          size_t most);

/* One row: a cell for each column, a text or a number. */
struct cell {
    double number;
    const char *text;
};
#define ROW(...) ((const struct cell[]){__VA_ARGS__})
void report_row(struct table *table, const struct cell *cells);

/* A point of a curve: y at step x, in a band; `mark`: what is to be said of the step, or NULL. */
struct point {
    double x, y, low, high;
    const char *mark;
};

/* A table that is drawn as a curve over steps, which grow. Where there are many, several are one point: their mean,
 * within the least and the greatest. */
void report_curve(struct json_object *section, const char *title, const char *kind, const struct point *points,
                  size_t count);

/* A list of that name in an object; it may be empty. */
struct json_object *report_list(struct json_object *object, const char *name);

/* ---- sections, in the order in which they stand: what is to be said, or why there is nothing ---- */

/* overview.c: whose run it was, why it failed, what the trace lacks; and the verdict with the key figures. */
void section_head(struct json_object *report, const struct facts *facts);
void section_verdict(struct json_object *report, const struct facts *facts);
/* late.c: what of a step a straggler takes longer for; a sentence about it, which may be "", and its worst steps */
enum { LATE_TEXT_BYTES = 300 };
const char *late_describe(const struct facts *facts, char text[LATE_TEXT_BYTES]);
void section_late(struct json_object *report, const struct facts *facts);
/* whole.c: the table "The whole run", of where its time went; nothing where the trace does not know */
void whole_put(struct json_object *section, const struct facts *facts);
/* job.c: of a job that failed, who, where, and how many steps each rank had made; and what was warned of */
void section_ends(struct json_object *report, const struct facts *facts);
/* settings, versions, checks; and the program with its arguments: malloc'ed, NULL: not known */
char *command_text(const struct facts *facts);
void section_settings(struct json_object *report, const struct facts *facts);
/* steps.c: over the run, and by rank; and the curves of DDP_MEAN */
void section_steps(struct json_object *report, const struct facts *facts);
void section_means(struct json_object *report, const struct facts *facts);
/* timeline.c: one step, with buckets */
void section_timeline(struct json_object *report, const struct facts *facts);
/* buckets.c: buckets of the last plan, and their tensors */
void section_buckets(struct json_object *report, const struct facts *facts);

/* ---- html.c: the same as text ---- */

void html_put_title(FILE *out, struct json_object *report);
void html_put_body(FILE *out, struct json_object *report);
/* As data in a <script>: no '<' is in it. */
void html_put_data(FILE *out, struct json_object *report);

#endif

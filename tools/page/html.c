/*
 * html.c - a report as text in HTML, for browsers without a script and for people who read the file; and as data in it
 * (report.h). Called by page.c.
 */
#include "tools/page/report.h"

#include <json-c/json.h>

#include <math.h>
#include <stdarg.h>

/* Text, in which no markup is left. */
static void
put_text(FILE *out, const char *text)
{
    for (const char *at = text; *at != '\0'; ++at) {
        switch (*at) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*at, out);
        }
    }
}

/* Markup, in which each %s is text. */
static void __attribute__((format(printf, 2, 3))) put(FILE *out, const char *format, ...)
{
    va_list texts;
    va_start(texts, format);
    const char *at = format;
    while (*at != '\0') {
        if (at[0] == '%' && at[1] == 's') {
            put_text(out, va_arg(texts, const char *));
            at += 2;
        } else {
            fputc(*at, out);
            ++at;
        }
    }
    va_end(texts);
}

static void
put_sentence(FILE *out, json_object *sentence)
{
    put(out, "<p>%s</p>\n", json_object_get_string(sentence));
}

static void
put_command(FILE *out, json_object *command)
{
    put(out, "<p class='code'>%s</p>\n", json_object_get_string(command));
}

static void
put_link(FILE *out, json_object *link)
{
    put(out, "<p><a href='#%s'>%s</a></p>\n", facts_string(link, "to"), facts_string(link, "text"));
}

static void
put_figure(FILE *out, json_object *figure)
{
    char text[FIGURE_BYTES];
    put(out, "<dl><dt>%s</dt><dd id='run-%s'>%s<small>%s</small></dd></dl>\n", facts_string(figure, "name"),
        facts_string(figure, "id"), figure_text(facts_string(figure, "kind"), facts_number(figure, "value"), text),
        facts_string(figure, "note"));
}

/* The first one of a row is its name. */
static void
put_cell(FILE *out, json_object *value, const char *kind, bool first)
{
    char figure[FIGURE_BYTES];
    const char *text = NULL;
    if (json_object_is_type(value, json_type_string))
        text = json_object_get_string(value);
    else
        text = figure_text(kind, value != NULL ? json_object_get_double(value) : NAN, figure);
    put(out, first ? "<th scope='row' class='%s'>%s</th>" : "<td class='%s'>%s</td>", kind, text);
}

/* Curves are long, and closed unless they are drawn or asked for. */
static bool
is_closed(json_object *table)
{
    const char *drawn = facts_string(table, "drawn");
    return strcmp(drawn, "curve") == 0 || strcmp(drawn, "closed") == 0;
}

static void
put_row(FILE *out, json_object *columns, json_object *row)
{
    put(out, "<tr>");
    for (size_t c = 0; c < json_object_array_length(columns); ++c) {
        const char *kind = facts_string(json_object_array_get_idx(columns, c), "kind");
        put_cell(out, json_object_array_get_idx(row, c), kind, c == 0);
    }
    put(out, "</tr>\n");
}

static void
put_table(FILE *out, json_object *table)
{
    const char *title = facts_string(table, "title");
    json_object *columns = report_list(table, "columns"), *rows = report_list(table, "rows"),
                *notes = report_list(table, "notes");
    put(out, is_closed(table) ? "<details>\n" : "<details open>\n");
    put(out, "<summary><h3>%s</h3></summary>\n", title);
    for (size_t i = 0; i < json_object_array_length(notes); ++i)
        put(out, "<p class='caption'>%s</p>\n", json_object_get_string(json_object_array_get_idx(notes, i)));
    put(out, "<div class='box' tabindex='0' role='region' aria-label='%s'><table>\n<thead><tr>", title);
    for (size_t c = 0; c < json_object_array_length(columns); ++c) {
        json_object *column = json_object_array_get_idx(columns, c);
        put(out, "<th scope='col' class='%s'>%s</th>", facts_string(column, "kind"), facts_string(column, "name"));
    }
    put(out, "</tr></thead>\n<tbody>\n");
    for (size_t r = 0; r < json_object_array_length(rows); ++r)
        put_row(out, columns, json_object_array_get_idx(rows, r));
    put(out, "</tbody></table></div>\n");
    if (facts_number(table, "left_out") > 0)
        fprintf(out, "<p class='caption'>And %.0f more rows.</p>\n", facts_number(table, "left_out"));
    put(out, "</details>\n");
}

void
html_put_title(FILE *out, json_object *report)
{
    put(out, "%s - ddprun report",
        facts_string(json_object_array_get_idx(report_list(report, "sections"), 0), "title"));
}

/* Figures that lead stand above the sentences, the others below; those that show after a click are the last. */
static void
put_figures(FILE *out, json_object *section, bool leads)
{
    json_object *list = report_list(section, "figures");
    bool folded = false;
    put(out, leads ? "<div class='figures lead'>\n" : "<div class='figures'>\n");
    for (size_t i = 0; i < json_object_array_length(list); ++i) {
        json_object *figure = json_object_array_get_idx(list, i);
        if (json_object_get_boolean(json_object_object_get(figure, "leads")) != leads)
            continue;
        if (!folded && json_object_get_boolean(json_object_object_get(figure, "folded"))) {
            folded = true;
            put(out, "</div>\n<details><summary>more figures</summary><div class='figures'>\n");
        }
        put_figure(out, figure);
    }
    put(out, folded ? "</div></details>\n" : "</div>\n");
}

static void
put_list(FILE *out, json_object *section, const char *name, void (*put_one)(FILE *out, json_object *one))
{
    json_object *list = report_list(section, name);
    if (json_object_array_length(list) == 0)
        return;
    put(out, "<div class='%s'>\n", name);
    for (size_t i = 0; i < json_object_array_length(list); ++i)
        put_one(out, json_object_array_get_idx(list, i));
    put(out, "</div>\n");
}

static void
put_section(FILE *out, json_object *section, const char *tag)
{
    bool has_figures = json_object_array_length(report_list(section, "figures")) > 0;
    fprintf(out, "<section id='%s'>\n<%s>", facts_string(section, "id"), tag);
    put(out, "%s", facts_string(section, "title"));
    fprintf(out, "</%s>\n", tag);
    put(out, "<p class='caption'>%s</p>\n", facts_string(section, "caption"));
    put_list(out, section, "command", put_command);
    if (has_figures)
        put_figures(out, section, true);
    put_list(out, section, "bad", put_sentence);
    put_list(out, section, "notes", put_sentence);
    put_list(out, section, "links", put_link);
    if (has_figures)
        put_figures(out, section, false);
    put_list(out, section, "tables", put_table);
    put(out, "</section>\n");
}

void
html_put_body(FILE *out, json_object *report)
{
    json_object *sections = report_list(report, "sections");
    for (size_t i = 0; i < json_object_array_length(sections); ++i)
        put_section(out, json_object_array_get_idx(sections, i), i == 0 ? "h1" : "h2");
}

void
html_put_data(FILE *out, json_object *report)
{
    for (const char *at = json_object_to_json_string_ext(report, JSON_C_TO_STRING_PLAIN); *at != '\0'; ++at) {
        if (*at == '<')
            fputs("\\u003c", out);
        else
            fputc(*at, out);
    }
}

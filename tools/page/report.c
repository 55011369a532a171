/* report.c - see report.h. */
#include "tools/page/report.h"

#include "base/printable.h"
#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

#include <json-c/json.h>

#include <math.h>
#include <stdarg.h>

enum { MOST_POINTS = 200 };

static json_object *
text_of(const char *text)
{
    OWNED char *copy = xstrdup(text);
    printable_make(copy, "");
    return json_object_new_string(copy);
}

/* With seven digits. */
static json_object *
number_of(double value)
{
    char text[32];
    if (!isfinite(value))
        return NULL;
    if (value == trunc(value) && fabs(value) < 1e15)
        return json_object_new_int64((int64_t)value);
    snprintf(text, sizeof(text), "%.7g", value);
    return json_object_new_double_s(value, text);
}

json_object *
report_list(json_object *object, const char *name)
{
    json_object *list;
    if (!json_object_object_get_ex(object, name, &list)) {
        list = json_object_new_array();
        json_object_object_add(object, name, list);
    }
    return list;
}

/* One more object in a list, with members that are texts: their names and values, up to NULL. */
static json_object *__attribute__((sentinel)) add_object(json_object *object, const char *list, ...)
{
    json_object *added = json_object_new_object();
    va_list texts;
    va_start(texts, list);
    for (const char *name; (name = va_arg(texts, const char *)) != NULL;)
        json_object_object_add(added, name, text_of(va_arg(texts, const char *)));
    va_end(texts);
    json_object_array_add(report_list(object, list), added);
    return added;
}

json_object *
report_section(json_object *report, const char *id, const char *title, const char *caption)
{
    return add_object(report, "sections", "id", id, "title", title, "caption", caption, NULL);
}

void
report_sentence(json_object *section, const char *list, const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) >= 0) {
        json_object_array_add(report_list(section, list), text_of(text));
        free(text);
    }
    va_end(arguments);
}

void
report_link(struct json_object *section, const char *target, const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) >= 0) {
        (void)add_object(section, "links", "text", text, "to", target, NULL);
        free(text);
    }
    va_end(arguments);
}

/* ---- figures ---- */

const char *
figure_text(const char *kind, double value, char text[FIGURE_BYTES])
{
    static const struct {
        const char *kind;
        double from, divide; /* from this size on; the last that fits counts */
        const char *unit;
    } units[] = {{"time", 0, 1, "\xc2\xb5s"}, {"time", 999.5, 1e3, "ms"},      {"time", 999.5e3, 1e6, "s"},
                 {"bytes", 0, 1, "bytes"},    {"bytes", 1024, 0x1p10, "KiB"},  {"bytes", 0x1p20, 0x1p20, "MiB"},
                 {"share", 0, 0.01, "%"},     {"bytes", 0x1p30, 0x1p30, "GiB"}};
    const char *unit = "";
    snprintf(text, FIGURE_BYTES, "-");
    if (!isfinite(value))
        return text;
    double size = fabs(value), divide = 1;
    bool is_count = strcmp(kind, "count") == 0, is_whole = is_count || (strcmp(kind, "bytes") == 0 && size < 1024);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); ++i) {
        if (strcmp(units[i].kind, kind) == 0 && size >= units[i].from) {
            unit = units[i].unit;
            divide = units[i].divide;
        }
    }
    size /= divide;
    int digits = is_whole || size < 5e-3 || size >= 99.95 ? 0 : size < 9.995 ? 2 : 1;
    bool is_plain = size < 1e15 && (size == 0 || size >= 0.1 || unit[0] != '\0');
    value = is_plain && size < 5e-3 ? 0 : value / divide; /* no "-0" */
    snprintf(text, FIGURE_BYTES, is_plain ? "%.*f" : "%.*g", is_plain ? digits : 3, value);
    for (size_t at = strlen(text); is_count && is_plain && at > 3; text[at] = ',') { /* one for each three digits */
        at -= 3;
        memmove(text + at + 1, text + at, strlen(text + at) + 1);
    }
    printable_append(text, FIGURE_BYTES, unit[0] != '\0' ? "\xc2\xa0%s" : "%s", unit);
    return text;
}

void
report_figure(json_object *section, const char *id, const char *name, const char *kind, double value, const char *note,
              enum figure_place place)
{
    json_object *figure = add_object(section, "figures", "id", id, "name", name, "kind", kind, "note", note, NULL);
    json_object_object_add(figure, "value", number_of(value));
    json_object_object_add(figure, "folded", json_object_new_boolean(place == FIGURE_FOLDED));
    json_object_object_add(figure, "leads", json_object_new_boolean(place == FIGURE_LEADS));
}

/* ---- tables ---- */

struct table
report_table(json_object *section, const char *title, const char *drawn, const char *columns, size_t most)
{
    struct table table = {.object = add_object(section, "tables", "title", title, "drawn", drawn, NULL), .most = most};
    for (const char *at = columns; *at != '\0'; ++table.columns) {
        char name[64], kind[16] = "text";
        size_t length = strcspn(at, "|"), name_length = strcspn(at, ":|");
        snprintf(name, sizeof(name), "%.*s", (int)name_length, at);
        if (name_length < length)
            snprintf(kind, sizeof(kind), "%.*s", (int)(length - name_length - 1), at + name_length + 1);
        (void)add_object(table.object, "columns", "name", name, "kind", kind, NULL);
        at += length + (at[length] == '|');
    }
    table.rows = report_list(table.object, "rows");
    return table;
}

void
report_row(struct table *table, const struct cell *cells)
{
    if (++table->count > table->most) {
        json_object_object_add(table->object, "left_out", number_of((double)(table->count - table->most)));
        return;
    }
    json_object *row = json_object_new_array();
    for (size_t i = 0; i < table->columns; ++i)
        json_object_array_add(row, cells[i].text != NULL ? text_of(cells[i].text) : number_of(cells[i].number));
    json_object_array_add(table->rows, row);
}

/* ---- curves ---- */

void
report_curve(json_object *section, const char *title, const char *kind, const struct point *points, size_t count)
{
    char columns[120];
    size_t each = count > MOST_POINTS ? (count + MOST_POINTS - 1) / MOST_POINTS : 1;
    bool bands = each > 1 || ANY(point, points, count, point->low < point->high);
    snprintf(columns, sizeof(columns),
             bands ? "Step:count|Value:%s|Mark|Least:%s|Greatest:%s" : "Step:count|Value:%s|Mark", kind, kind, kind);
    struct table table = report_table(section, title, "curve", columns, SIZE_MAX);
    if (each > 1)
        report_sentence(
            table.object, "notes",
            "Each row has the mean, the least and the greatest of %zu recorded steps; Step is the first of them.",
            each);
    for (size_t first = 0; first < count; first += each) {
        size_t end = first + each < count ? first + each : count, known = 0;
        struct point all = {points[first].x, 0, NAN, NAN, ""};
        for (size_t i = first; i < end; ++i) {
            known += !isnan(points[i].y);
            all.y += isnan(points[i].y) ? 0 : points[i].y;
            all.low = fmin(all.low, points[i].low);
            all.high = fmax(all.high, points[i].high);
            all.mark = points[i].mark != NULL ? points[i].mark : all.mark;
        }
        report_row(&table,
                   ROW({all.x}, {all.y / (double)known /* of none: NAN */}, {.text = all.mark}, {all.low}, {all.high}));
    }
}

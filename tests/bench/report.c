/*
 * report.c - see report.h.
 */
#include "report.h"

#include <json-c/json.h>

#include <stdio.h>
#include <stdlib.h>

static void
print_json(const char *name, double value, const char *unit, const char *bar, bool holds)
{
    json_object *figure = json_object_new_object();
    json_object_object_add(figure, "name", json_object_new_string(name));
    json_object_object_add(figure, "value", json_object_new_double(value));
    json_object_object_add(figure, "unit", json_object_new_string(unit));
    json_object_object_add(figure, "bar", json_object_new_string(bar));
    json_object_object_add(figure, "holds", json_object_new_boolean(holds));
    printf("%s\n", json_object_to_json_string_ext(figure, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(figure);
}

static void
print_figure(struct report *report, const char *name, double value, const char *unit, const char *bar, bool holds)
{
    if (report->json) {
        print_json(name, value, unit, bar, holds);
    } else {
        if (!report->head_printed)
            printf("%-58s %10s %-8s %-10s %s\n", "figure", "value", "unit", "bar", "holds");
        printf("%-58s %10.4g %-8s %-10s %s\n", name, value, unit, bar, bar[0] == '-' ? "-" : holds ? "yes" : "NO");
    }
    report->head_printed = true;
    fflush(stdout);
}

void
report_figure(struct report *report, const char *name, double value, const char *unit, enum bar bar, double limit)
{
    char text[32];
    bool holds = bar == BAR_AT_MOST ? value <= limit : value >= limit;
    snprintf(text, sizeof(text), "%s %g", bar == BAR_AT_MOST ? "<=" : ">=", limit);
    print_figure(report, name, value, unit, text, holds);
}

void
report_value(struct report *report, const char *name, double value, const char *unit)
{
    print_figure(report, name, value, unit, "-", true);
}

static int
compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

double
report_median(double *values, size_t count)
{
    qsort(values, count, sizeof(values[0]), compare);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2.0;
}

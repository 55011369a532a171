/* report.c - see report.h. */
#include "report.h"

#include <json-c/json.h>

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool
report_take_options(struct report *report, int argc, char **argv, int *pairs, int at_most)
{
    int usual = *pairs;
    for (int i = 1; i < argc; ++i) {
        int asked = i + 1 < argc ? atoi(argv[i + 1]) : 0;
        if (strcmp(argv[i], "--json") == 0) {
            report->json = true;
        } else if (strcmp(argv[i], "--pairs") == 0 && asked > 0 && asked <= at_most) {
            *pairs = asked;
            ++i;
        } else {
            fprintf(stderr, "Usage: %s [--json] [--pairs N]   (N from 1 to %d, default %d)\n",
                    program_invocation_short_name, at_most, usual);
            return false;
        }
    }
    return true;
}

void
report_program_folder(char *folder, int levels)
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0) {
        perror("/proc/self/exe");
        exit(1);
    }
    folder[length] = '\0';
    for (int i = 0; i < levels; ++i)
        dirname(folder);
}

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

/* The place of the lower end of the median's interval among `count` sorted values: at most 2.5 % are below. */
static size_t
lower_place(size_t count)
{
    double term = 1.0, sum = 0.0;
    for (size_t i = 0; i < count; ++i)
        term /= 2.0;
    for (size_t i = 0; i < count / 2; ++i) {
        sum += term;
        if (sum > 0.025)
            return i > 0 ? i - 1 : 0;
        term *= (double)(count - i) / (double)(i + 1);
    }
    return 0;
}

void
report_ratio(struct report *report, const char *name, double *ratios, size_t count, double limit)
{
    char text[32], full[160];
    double median = report_median(ratios, count);
    size_t place = lower_place(count);
    double low = ratios[place], high = ratios[count - 1 - place];
    snprintf(text, sizeof(text), "<= %g", limit);
    snprintf(full, sizeof(full), "%s [%.4f, %.4f]", name, low, high);
    print_figure(report, full, median, "ratio", text, low <= limit);
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

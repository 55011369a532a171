/*
 * report.h - how benchmark programs show their figures: a table for people, or with --json one object a figure and
 * line.
 *
 * A figure is a ratio or a rate measured in this run, with the bar it is held to. Benchmarks never fail a test run:
 * they say whether the bar holds, and exit with 0.
 */
#ifndef DDPRUN_TESTS_BENCH_REPORT_H
#define DDPRUN_TESTS_BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

enum bar { BAR_AT_MOST, BAR_AT_LEAST };

struct report {
    bool json;
    bool head_printed;
};

/* Takes --json and --pairs N, N up to `at_most`. False: an option is unknown; the usage is printed to stderr. */
bool report_take_options(struct report *report, int argc, char **argv, int *pairs, int at_most);

/* The folder of the program, `levels` - 1 above it, in `folder` of PATH_MAX bytes; ends the program if that is unknown.
 */
void report_program_folder(char *folder, int levels);

/* Prints one figure: its name, the value in `unit`, and whether it is on the right side of `limit`. */
void report_figure(struct report *report, const char *name, double value, const char *unit, enum bar bar, double limit);

/* A figure that no bar is set for, such as what another rule does in the same run. */
void report_value(struct report *report, const char *name, double value, const char *unit);

/*
 * Prints the median of ratios[count] as a figure, with the 95 % interval of the median in its name (order statistics of
 * the sign test; the whole range where there are fewer than six). It holds if `limit` lies inside or above the
 * interval. Sorts them.
 */
void report_ratio(struct report *report, const char *name, double *ratios, size_t count, double limit);

/* The median of values[count]; sorts them. */
double report_median(double *values, size_t count);

#endif

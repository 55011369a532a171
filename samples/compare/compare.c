/*
 * compare.c - how far apart are two saved networks? Called by samples/run.sh and by tests that hold a run against its
 * serial twin.
 *
 * Prints for each tensor, and at the end for all, max|a - b| / max|b|. Two equal zeros count as 0.
 */
#include "common/parameter_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "Usage: compare [--quiet] A B [LIMIT]\n"
    "Prints max|a - b| / max|b| for each tensor of two files saved by the samples, and the largest of them.\n"
    "Exit code 0; 1 if the files cannot be compared or the largest is above LIMIT; 2 after a usage error.\n";

/* Infinity where a value is not a number: it must never pass as small. */
static double
difference(const struct parameter *a, const struct parameter *b)
{
    double largest_difference = 0.0, largest = 0.0;
    for (size_t i = 0; i < b->count; ++i) {
        if (!isfinite(a->values[i]) || !isfinite(b->values[i]))
            return INFINITY;
        largest_difference = fmax(largest_difference, fabs((double)a->values[i] - (double)b->values[i]));
        largest = fmax(largest, fabs((double)b->values[i]));
    }
    return largest_difference == 0.0 ? 0.0 : largest_difference / largest;
}

static int
same_tensors(const struct parameter *a, size_t a_count, const struct parameter *b, size_t b_count)
{
    if (a_count != b_count)
        return 0;
    for (size_t i = 0; i < a_count; ++i) {
        if (strcmp(a[i].name, b[i].name) != 0 || a[i].count != b[i].count)
            return 0;
    }
    return 1;
}

int
main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(USAGE, stdout);
        return 0;
    }
    int quiet = argc > 1 && strcmp(argv[1], "--quiet") == 0;
    char **files = argv + 1 + quiet;
    int file_count = argc - 1 - quiet;
    char *end = "";
    double limit = file_count == 3 ? strtod(files[2], &end) : INFINITY;
    if (file_count < 2 || file_count > 3 || *end != '\0' || !(limit >= 0.0)) {
        fputs(USAGE, stderr);
        return 2;
    }

    struct parameter *a, *b;
    size_t a_count, b_count;
    if (parameter_file_read(files[0], &a, &a_count) != 0)
        return 1;
    if (parameter_file_read(files[1], &b, &b_count) != 0) {
        parameter_file_free(a, a_count);
        return 1;
    }

    int result = 0;
    if (same_tensors(a, a_count, b, b_count)) {
        double largest = 0.0;
        for (size_t i = 0; i < a_count; ++i) {
            double one = difference(&a[i], &b[i]);
            largest = fmax(largest, one);
            if (!quiet)
                printf("%-8s %10zu values  %.2e\n", a[i].name, a[i].count, one);
        }
        printf("largest difference %.2e\n", largest);
        result = largest <= limit ? 0 : 1;
    } else {
        fprintf(stderr, "compare: %s and %s hold different tensors\n", files[0], files[1]);
        result = 1;
    }
    parameter_file_free(a, a_count);
    parameter_file_free(b, b_count);
    return result;
}

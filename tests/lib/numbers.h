/*
 * numbers.h - numbers of a command line or of the environment, for programs of the tests: what is no number ends the
 * program, with exit code 2 and a line, and is not taken for 0. C and C++; includes nothing of the product.
 */
#ifndef DDPRUN_TESTS_NUMBERS_H
#define DDPRUN_TESTS_NUMBERS_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Unless the text is a whole number from `least` to `most`. */
static inline long long
whole_number(const char *text, long long least, long long most)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    const bool is_number = errno == 0 && end != text && *end == '\0';
    if (is_number && value >= least && value <= most)
        return value;
    fprintf(stderr, "%s is no whole number from %lld to %lld\n", text, least, most);
    exit(2);
}

/* Unless the text is a number, with a fraction or an exponent or without. */
static inline double
real_number(const char *text)
{
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    if (end != text && *end == '\0')
        return value;
    fprintf(stderr, "%s is no number\n", text);
    exit(2);
}

#endif

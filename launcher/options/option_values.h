/*
 * option_values.h - how the values of options are read: numbers, words, texts; for option_table.c. Pure, but for
 * option_keep().
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_OPTION_VALUES_H
#define DDPRUN_LAUNCHER_OPTIONS_OPTION_VALUES_H

#include "launcher/options/option_table.h"

/* Sets the error of a value that is not `wanted`, "a number from 1 to 8"; returns false. */
bool option_bad_value(struct error *error, const struct option_row *row, const char *value, const char *wanted);

/* A whole decimal number in [least, most], digits only. False and untouched `number`: the text is another. */
bool option_whole_number(const char *text, unsigned long least, unsigned long most, unsigned long *number);

/* The same of a decimal fraction. */
bool option_real_number(const char *text, double least, double most, double *number);

/* The place of `value` among names[count]; -1 if it is not among them. */
int option_one_of(const char *value, const char *const *names, int count);

/* Any text but an empty one. */
bool option_take_text(const struct option_row *row, const char **field, const char *value, const char *wanted,
                      struct error *error);

#endif

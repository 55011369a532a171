/*
 * option_table.h - nvcc's options as rows of a table: names, kind of value, what each one does. For options.c, which
 * reads command lines by it.
 */
#ifndef SOFTGPU_CC_OPTION_TABLE_H
#define SOFTGPU_CC_OPTION_TABLE_H

#include "options.h"

enum value_kind {
    VALUE_NONE,
    VALUE_NEEDED, /* separate or after '=' */
    VALUE_SWITCH, /* true or false, after '=' or as the next word; alone it means true */
    VALUE_FILES,  /* as VALUE_NEEDED: files with more arguments, which options.c reads */
    VALUE_GLUED,  /* as VALUE_NEEDED, or glued to the short name */
    VALUE_GLUED_NUMBER,
};

struct option {
    const char *long_name;  /* without "--" */
    const char *short_name; /* without "-"; NULL: no short name */
    enum value_kind kind;
    bool (*apply)(struct options *options, const char *value); /* NULL: accepted, means nothing here */
    const char *help;                                          /* NULL: not shown */
};

extern const struct option option_table[];
extern const size_t option_count;

/* Adds an input, or an argument for the linker. */
void options_add_item(struct options *options, bool is_input, enum language language, const char *text);

#endif

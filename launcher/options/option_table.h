/*
 * option_table.h - the table of options, for the files that make a parser (options.c), a help (help.c) and readers of
 * settings (settings.c) of it. No other file includes this one.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_OPTION_TABLE_H
#define DDPRUN_LAUNCHER_OPTIONS_OPTION_TABLE_H

#include "launcher/options/options.h"

enum option_group {
    GROUP_PLACES,
    GROUP_TRAINING,
    GROUP_SAFETY,
    GROUP_PROGRAM,
    GROUP_OUTPUT,
    GROUP_CHECK, /* of `ddprun check` alone */
    GROUP_OTHER,
    GROUP_COUNT
};

/*
 * Takes the value of an option. `value` is NULL for an option without one that was given; from a setting it may also be
 * "0", which takes it back.
 */
struct option_row;
typedef bool (*option_take_fn)(const struct option_row *row, struct options *options, const char *value,
                               struct error *error);

struct option_row {
    char letter;          /* 0: none */
    const char *name;     /* long name, without dashes */
    const char *argument; /* name of its value in the help; NULL: takes none */
    enum option_group group;
    option_take_fn take; /* NULL: --help and the like, which the parser answers itself */
    const char *help;
    const char *brief;      /* a few words for the first screen of help; NULL: only --help-all tells of it */
    bool command_line_only; /* has no form as a setting */
    bool not_handed_on;     /* not for the ddprun that --hosts starts */
};

extern const struct option_row option_rows[];
extern const int option_row_count;

/* Other launchers' names of an option, on the command line only. */
struct option_synonym {
    const char *name;
    const char *of; /* long name of the option */
    bool is_per_host;
};

extern const struct option_synonym option_synonyms[];
extern const int option_synonym_count;

/* The row of a long name, or NULL. */
const struct option_row *option_row_named(const char *name);

/* The name in the table that `name` was probably meant to be, or NULL. */
const char *option_nearest_name(const char *name);

/* The same, with at most so many letters wrong. */
const char *option_nearest_name_within(const char *name, unsigned most);

/* A copy of `text` that lives as long as the options. */
const char *option_keep(struct options *options, const char *text);

/* ---- settings.c ---- */

/* Applies the environment's settings, then the file's. Error (DDPRUN_EXIT_USAGE): a value or the file is wrong. */
bool settings_apply(struct options *options, struct error *error) __attribute__((warn_unused_result));

/* "bucket-mb" gives "DDPRUN_BUCKET_MB". */
void settings_variable_name(const char *option, char *name, size_t bytes);

#endif

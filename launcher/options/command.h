/*
 * command.h - options as rows of a table, and a command that takes them: ddprun itself (options.def), and each of its
 * tools. One parser reads their command lines, one printer makes their help, one function lists them for completion.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_COMMAND_H
#define DDPRUN_LAUNCHER_OPTIONS_COMMAND_H

#include "launcher/common/error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { OPTION_ROWS_AT_MOST = 96 }; /* with synonyms */

enum option_group {
    GROUP_OWN, /* of a tool */
    GROUP_PLACES,
    GROUP_TRAINING,
    GROUP_SAFETY,
    GROUP_PROGRAM,
    GROUP_OUTPUT,
    GROUP_MIXED, /* of the command whose options stand among ddprun's own (options_mix()) */
    GROUP_OTHER,
    GROUP_COUNT
};

/* What becomes of a value. */
enum option_kind {
    OPTION_SWITCH,   /* takes none: a bool becomes true */
    OPTION_UNSWITCH, /* takes none: a bool becomes false */
    OPTION_WHOLE,    /* unsigned: digits, from `least` to `most` */
    OPTION_REAL,     /* double, from `least` to `most` */
    OPTION_MIB,      /* uint64_t: bytes, written as MiB with a fraction; 0: not given */
    OPTION_ONE_OF,   /* enum: the place of the word among those of `argument`, "a|b|c"; the first one's is `least` */
    OPTION_TEXT,     /* const char *: any but an empty one; NULL: not given */
    OPTION_SPECIAL,  /* take() stores it */
    OPTION_ANSWER,   /* --help and the like: the parser returns `answer` */
};

enum option_flag {
    OR_ZERO = 1 << 0,           /* of WHOLE: or 0 */
    TERM = 1 << 1,              /* has to be the same on all ranks of a job (options.h) */
    TRACED = 1 << 2,            /* a trace has its value (summary.h) */
    COMMAND_LINE_ONLY = 1 << 3, /* has no form as a setting */
    NOT_HANDED_ON = 1 << 4,     /* not for a ddprun that this one starts */
    OF_JOBS_TOO = 1 << 5,       /* of GROUP_MIXED: who starts the job says whether it may stand there */
};

struct option_row;

/* `value`: as it is written. */
typedef bool (*option_take_fn)(const struct option_row *row, void *target, const char *value, struct error *error);

struct option_row {
    const char *name;     /* long name, without dashes */
    const char *argument; /* name of its value in the help; NULL: takes none */
    const char *help;
    const char *brief;   /* a few words for the first screen of ddprun's help; NULL: it is not on it */
    const char *wanted;  /* of values that are refused: "'x' is not ..." */
    const char *usual;   /* what a trace says where the option was not given; NULL: nothing */
    option_take_fn take; /* OPTION_SPECIAL */
    double least, most;
    void *target; /* the struct of its value; NULL: the command's */
    size_t field; /* offset of the value in it */
    size_t given; /* offset of a bool that says that it was given; 0: none */
    unsigned flags;
    int answer; /* OPTION_ANSWER: enum options_result */
    enum option_kind kind;
    enum option_group group;
    char letter; /* 0: none */
};

/* Another launcher's name of an option, on the command line only. */
struct option_synonym {
    const char *name;
    const char *of; /* long name of the option */
};

enum options_result {
    OPTIONS_RUN,
    OPTIONS_HELP,       /* --help was given; nothing else was checked after it */
    OPTIONS_HELP_ALL,   /* the same for --help-all */
    OPTIONS_HELP_MIXED, /* the same after the word of options_mix() */
    OPTIONS_VERSION,    /* the same for --version */
    OPTIONS_BAD,        /* `error` says why */
};

struct options;

struct command {
    const char *name;                      /* ddprun's own is empty */
    const char *brief;                     /* what it does, for a list */
    const char *usage;                     /* of its help: what stands above the options, */
    const char *notes;                     /* and below */
    const char *wants;                     /* what has to stand after the options, "program"; NULL: nothing */
    const char *example;                   /* how that looks: "ddprun doctor ./train" */
    bool mixes;                            /* options may stand after that, too */
    bool starts_ranks;                     /* it starts a job of its own, and cannot be one of several processes */
    enum option_group group;               /* of the rows that its help shows */
    const struct option_row *rows;         /* up to one without a name */
    const struct option_synonym *synonyms; /* the same, or NULL */
    /* An option was taken; `written`: its long name or that of a synonym, NULL: as a letter. May be NULL. */
    void (*note)(void *target, const struct option_row *row, const char *value, const char *written);
    void (*reset)(void); /* of the one of options_mix(): its values become the usual ones */
    int (*run)(const struct command *command, const struct options *options); /* of a tool: its exit code */
};

/* ---- command.c ---- */

/*
 * The options among the words after argv[0]. `*rest_p`: how many words of argv, with argv[0], they are; what follows
 * them is the program, or what the command wants. Not thread-safe (getopt).
 */
enum options_result command_parse(const struct command *command, int argc, char **argv, void *target, int *rest_p,
                                  struct error *error) MUST_USE;

/* The row of a long name, or NULL. */
const struct option_row *option_row_named(const struct command *command, const char *name);

/* The name among the rows that `name` was probably meant to be, with at most so many letters wrong; or NULL. */
const char *option_nearest(const struct command *command, const char *name, unsigned most);

/* The same of a command; `commands` ends with NULL. */
const struct command *command_nearest(const struct command *const *commands, const char *name);
const struct command *command_named(const struct command *const *commands, const char *name);

/* Of ddprun's own options that the version before had: what serves instead; NULL: it had none of that name. */
const char *option_gone(const char *name);

/* ---- option_values.c ---- */

/* The command whose options stand among ddprun's own (options_mix()); NULL: none's do. */
extern const struct command *option_mixed;

/* Stores a value. `value` is NULL for an option without one that was given; from a setting it may also be "0", which
 * takes it back. Error (DDPRUN_EXIT_USAGE): it is not as it has to be; `command` for the message. */
bool option_take(const struct option_row *row, void *target, const char *command, const char *value,
                 struct error *error) MUST_USE;

/* Sets the error of a value that is not as the row wants it; returns false. */
bool option_bad_value(const struct option_row *row, const char *command, const char *value, struct error *error);

/* Whether it has a value, given or usual. False: a switch is off, a number is 0 that has to be more, a text is NULL. */
bool option_is_set(const struct option_row *row, const void *target);

/* The value as text, with so many digits of a fraction; "on" or "off" of an option without one. Not of SPECIAL. */
void option_value_text(const struct option_row *row, const void *target, int digits, char *text, size_t bytes);

/* A whole decimal number in [least, most], digits only. False and untouched `number`: the text is another. */
bool option_whole_number(const char *text, unsigned long least, unsigned long most, unsigned long *number);

/* ---- help.c ---- */

/* The end of what ddprun itself prints to stdout: help, --version, --dry-run, what tools find. Writes what is left in
 * `out`. Returns ddprun's exit code: 0, or DDPRUN_EXIT_FAILURE after a message if not all of it could be written. */
int close_stdout(FILE *out) MUST_USE;

/* Writes the help, made from the table: a command's; of ddprun itself, on one screen or all of it. */
void command_print_help(FILE *out, const struct command *command);
void options_print_help(FILE *out);
void options_print_help_all(FILE *out, const struct command *const *commands);

/* Each command with what it does. */
void commands_print(FILE *out, const struct command *const *commands);

/* For launcher/ddprun.bash: a line for each option of ddprun itself (command "-") and of each command: "COMMAND LETTER
 * NAME VALUE", "-" for what it does not have; and one for each command, "COMMAND". */
void commands_print_completion(FILE *out, const struct command *const *commands);

#endif

/*
 * picture.h - a file that is made of a trace, as by `ddprun trace DIR -o FILE` and `ddprun report DIR -o FILE`: what
 * both take on the command line, and how the file is written.
 */
#ifndef DDPRUN_TOOLS_TRACE_PICTURE_H
#define DDPRUN_TOOLS_TRACE_PICTURE_H

#include "launcher/common/error.h"
#include "launcher/options/command.h"
#include "tools/trace/read.h"

struct picture_request {
    const char *folder, *file; /* of the command line; file: "-" is standard output */
};

extern const struct option_row picture_rows[]; /* up to one without a name */

/* What is made of a trace. */
struct picture {
    const char *command, *name; /* "report", "page" */
    bool ends;                  /* also of a trace without steps, of a job of one rank or one that failed */
    void (*write)(FILE *out, const struct trace *trace);
};

/* Reads the folder. An error if no step is whole, but where the picture is of ends, too; what is missing is in the
 * trace's remarks. trace_free() in any case. */
bool picture_read(const char *folder, bool ends, struct trace *trace, struct error *error) MUST_USE;

/* Reads the folder, and writes the file whole or not at all, for the user alone; says what of the trace is missing.
 * `option`: where it was named, for messages. */
bool picture_make(const struct picture *picture, const char *folder, const char *file, const char *option,
                  struct error *error) MUST_USE;

/* The same as a command, with picture_rows and a folder: returns its exit code. That the file can be written is looked
 * at first. */
int picture_run(const struct picture *picture, const struct command *command, char **words);

/* ---- command.c: `ddprun trace DIR -o FILE`: what `ddprun --trace DIR` has written, for a viewer of timelines ---- */
/* Exit code 1: there is no trace to be read. Main thread. */
extern const struct command trace_command;

#endif

/*
 * picture.h - a file that is made of a trace, as by `ddprun trace DIR -o FILE` and `ddprun report DIR -o FILE`: what
 * both take on the command line, and how the file is written.
 */
#ifndef DDPRUN_TOOLS_TRACE_PICTURE_H
#define DDPRUN_TOOLS_TRACE_PICTURE_H

#include "launcher/common/error.h"
#include "launcher/options/command.h"
#include "tools/trace/read.h"

#include <stdbool.h>
#include <stdio.h>

struct picture_request {
    const char *folder, *file; /* of the command line; file: "-" is standard output */
};

extern const struct option_row picture_rows[]; /* up to one without a name */

/* A command line with picture_rows and a folder; that FILE can be written is looked at, too. `what` the file is, for
 * messages. False: as of command_begin(). */
bool picture_take(const struct command *command, const char *what, char **words, struct picture_request *request,
                  int *exit_code) __attribute__((warn_unused_result));

/* Reads the folder. An error if no step is whole, but with `ends` in a job whose summary says that it failed; what is
 * missing is in the trace's remarks. trace_free() in any case. */
bool picture_read(const char *folder, bool ends, struct trace *trace, struct error *error)
    __attribute__((warn_unused_result));

/* The file while it is made, in memory. */
struct picture {
    FILE *out; /* what is written here is its content; NULL: no memory, which picture_end() reports */
    char *text;
    size_t bytes;
};

void picture_begin(struct picture *picture);
/* Writes the file whole or not at all, for the user alone. `option`: where it was named, for messages. */
bool picture_end(struct picture *picture, const char *file, const char *option, struct error *error)
    __attribute__((warn_unused_result));

/* ---- trace.c: `ddprun trace DIR -o FILE`: what `ddprun --trace DIR` has written, for a viewer of timelines ---- */
/*
 * Called by main() when "trace" stands where a program would. Starts nothing.
 */

/* Exit code 1: there is no trace to be read. Main thread. */
extern const struct command trace_command;

#endif

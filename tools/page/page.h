/*
 * page.h - `ddprun report DIR -o FILE` and --page FILE: one HTML page about a run, made from its trace.
 *
 * The page needs no network, no script and no other file. Called by main() when "report" stands where a program would,
 * and at the end of a job.
 */
#ifndef DDPRUN_TOOLS_PAGE_PAGE_H
#define DDPRUN_TOOLS_PAGE_PAGE_H

#include "launcher/options/command.h"
#include "launcher/options/options.h"
#include "tools/trace/clocks.h"

#include <stdio.h>

/* Exit code 1: there is no trace to be read. Main thread. */
extern const struct command report_command;

/* Makes the page of the trace in `folder`, and replaces `file` by it, whole or not at all; "-" is standard output. The
 * file is the user's alone to read. `option` gave the name. Error: there is no trace, or it cannot be written. */
bool page_make(const char *folder, const char *file, const char *option, struct error *error) MUST_USE;

/* Prints the figures of two traces side by side. Error: one of them cannot be read, or has no steps. */
bool page_compare(char *const folders[2], struct error *error) MUST_USE;

/* The page of a trace with a run; for page_make() and the fuzzer. */
void page_write(FILE *out, const struct trace *trace, const struct run_clock *clocks);

#endif

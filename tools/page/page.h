/*
 * page.h - `ddprun report DIR -o FILE` and --page FILE: one HTML page about a run, made from its trace.
 *
 * The page needs no network and no other file. Called by main() when "report" stands where a program would,
 * and at the end of a job.
 */
#ifndef DDPRUN_TOOLS_PAGE_PAGE_H
#define DDPRUN_TOOLS_PAGE_PAGE_H

#include "launcher/options/options.h"
#include "tools/trace/read.h"

/* command.c. Exit code 1: there is no trace to be read. Main thread. */
extern const struct command report_command;

/* Makes the page of the trace in `folder`, and replaces `file` by it, whole or not at all; "-" is standard output. The
 * file is the user's alone to read. `option` gave the name. Error: there is no trace, or it cannot be written. */
bool page_make(const char *folder, const char *file, const char *option, struct error *error) MUST_USE;

extern const struct picture page_picture; /* picture.h */

/* The report on a trace with a run (report.h); json_object_put() releases it. */
struct json_object *report_make(const struct trace *trace);

/* The report in a page's text, the same; NULL: there is none, or of another version. For the fuzzer, too. */
struct json_object *report_of_page(const char *page);

/* Its page; for page_make() and the fuzzer. */
void page_write(FILE *out, const struct trace *trace);

#endif

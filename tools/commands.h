/*
 * commands.h - what main() hands over of the tools: the words of ddprun that stand in place of a program, each with its
 * tool, and what the tools load into ranks. The tests of what all of them have in common use it, too.
 */
#ifndef DDPRUN_TOOLS_COMMANDS_H
#define DDPRUN_TOOLS_COMMANDS_H

#include "launcher/options/command.h"
#include "launcher/start/environment.h"

extern const struct command *const commands[]; /* ends with NULL */

/* ---- rank_libraries.c ---- */
/* Into the ranks of a job that a tool has started, or of a job with --plan: an engine of their own, or a library in
 * front of the engine, and the one that redirects or notes files (tools/sandbox/). Called by
 * launcher/start/environment.c and launcher/job_start.c. Which tool it is, the variables say that the tool has set for
 * the ddprun that it starts. */
extern const struct rank_equipment tools_equipment;

#endif

/*
 * status.h - `ddprun status`: what the jobs of this user on this machine do now, from their status pages.
 *
 * Called by main() through tools/commands.c. Changes nothing of a job: a page is only read.
 */
#ifndef DDPRUN_TOOLS_STATUS_STATUS_H
#define DDPRUN_TOOLS_STATUS_STATUS_H

#include "launcher/options/command.h"

extern const struct command status_command;

#endif

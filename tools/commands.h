/*
 * commands.h - the words of ddprun that stand in place of a program, each with its tool.
 *
 * Used by main(), and by the tests of what all of them have in common.
 */
#ifndef DDPRUN_TOOLS_COMMANDS_H
#define DDPRUN_TOOLS_COMMANDS_H

#include "launcher/options/command.h"

extern const struct command *const commands[]; /* ends with NULL */

#endif

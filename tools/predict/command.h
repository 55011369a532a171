/*
 * command.h - `ddprun predict`: what would a step take on other numbers of ranks?
 */
#ifndef DDPRUN_TOOLS_PREDICT_COMMAND_H
#define DDPRUN_TOOLS_PREDICT_COMMAND_H

#include "launcher/options/command.h"

/* Main thread, before any other is started. */
extern const struct command predict_command;

#endif

/*
 * command.h - `ddprun predict`: what would a step take on other numbers of ranks?
 */
#ifndef DDPRUN_LAUNCHER_PREDICT_COMMAND_H
#define DDPRUN_LAUNCHER_PREDICT_COMMAND_H

#include "launcher/options/options.h"

/* Does it, and returns the exit code. Main thread, before any other is started. */
int predict_command(const struct options *options);

#endif

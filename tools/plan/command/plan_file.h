/*
 * plan_file.h - `--plan FILE`: a plan of `ddprun scout --prove --json FILE`, made ready for the ranks.
 */
#ifndef DDPRUN_TOOLS_PLAN_COMMAND_PLAN_FILE_H
#define DDPRUN_TOOLS_PLAN_COMMAND_PLAN_FILE_H

#include "launcher/common/error.h"

#include <stdbool.h>

/*
 * Reads the plan `path` and writes `to`, mode 0600, for the players of the ranks (tools/plan/format/play.h).
 * `unproved`: also a plan whose proof (d) did not pass. Error, with the exit code of wrong usage: it is no plan, of
 * another version, of a program that cannot be played, or not proved; or `to` cannot be written.
 */
bool plan_file_prepare(const char *path, bool unproved, const char *to, struct error *error)
    __attribute__((warn_unused_result));

#endif

/*
 * scout.h - `ddprun scout [--steps M] [--timeout S] [--json FILE] program`: what of a program's memory is a parameter,
 * a gradient, a state, found by watching the program train.
 *
 * Called by main() when "scout" stands where a program would. One process of the program is started, by a ddprun of its
 * own (run.c), with the recorder (tools/scout/trainer/) in the engine's place; what the recorder wrote is looked at
 * when that process has ended.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_SCOUT_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_SCOUT_H

#include "launcher/options/command.h"
#include "tools/scout/command/run.h"

enum { SCOUT_TIMEOUT_S = 900 }; /* of a run, unless --timeout says otherwise */

/* Exit code 1: the program cannot be followed. Main thread, before any other one. */
extern const struct command scout_command;

/* The same for --plan auto (auto.c): scouts, proves, and writes the plan to `path`, without a word. Sets the steps
 * of the order. `per_rank`: as of --per-rank. `by`: PLAN_BY_GRADIENTS, PLAN_BY_STATE; 0: by state, where it cannot be
 * by gradients. `unproved`: a plan of which a proof did not pass, too. Error, with the exit code: as of `ddprun scout
 * --prove`. Main thread. */
bool scout_make_plan(struct scout_order *order, const char *path, const char *per_rank, unsigned by, bool unproved,
                     struct error *error) MUST_USE;

#endif

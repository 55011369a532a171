/*
 * dry_run.h - what ddprun would start, printed instead of started.
 */
#ifndef DDPRUN_LAUNCHER_START_DRY_RUN_H
#define DDPRUN_LAUNCHER_START_DRY_RUN_H

#include "launcher/start/environment.h"
#include "launcher/start/placement.h"
#include "launcher/start/program.h"

#include <stdio.h>

/*
 * One command for each rank, which a shell understands: variables that differ from the environment that ddprun has, the
 * program, its arguments; by taskset where a rank is bound to processors. Not in it: a rank's memory node, and
 * the job's folder with the options for the engine. Returns ddprun's exit code.
 */
int dry_run_print(FILE *out, const struct rank_settings *settings, const struct program *program,
                  const struct placement *placement);

/* One command, quoted so that a shell takes it back word by word; no end of line. */
void dry_run_print_words(FILE *out, char *const *words);

#endif

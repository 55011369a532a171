/*
 * left_behind.h - which process has a rank's program left running when it ended?
 *
 * A script may start its trainer in the background and end. What it leaves falls to the launcher, a child subreaper,
 * and is told from what other ranks leave by the environment that it was started with. Supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_LEFT_BEHIND_H
#define DDPRUN_LAUNCHER_WATCH_LEFT_BEHIND_H

#include "launcher/watch/process_list.h"

#include <sys/types.h>

/* Whether `child`, of a picture of this moment, has fallen to the launcher and lives. `first`: the process that was
 * started first; what is older is not ours (processes.h). */
bool left_behind_is(const struct process_list *list, const struct process *child, pid_t first);

/* Whether it, or what descends from it, has been started as a program, as a trainer is. Else it is but copies of what
 * left it: loaders of data, mostly. */
bool left_behind_runs_program(const struct process_list *list, const struct process *child);

/* Whether it may be of the rank with that record in the status page: its environment says so, or nothing at all. */
bool left_behind_may_be_of(pid_t child, int index);

#endif

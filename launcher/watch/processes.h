/*
 * processes.h - ends all that descends from the launcher.
 *
 * Ranks start shells, wrappers and data loaders, in groups and sessions of their own. The launcher is a child
 * subreaper, so all of them stay its descendants. `pids` are the processes that it spawned itself, in order of time;
 * each leads a process group, and is not reaped before the end: as long as it is a zombie, its group's number cannot be
 * given to another group. Supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_PROCESSES_H
#define DDPRUN_LAUNCHER_WATCH_PROCESSES_H

#include "launcher/watch/process_list.h"

#include <sys/types.h>

enum {
    PROCESSES_GRACE_MS = 500,       /* between SIGTERM and SIGKILL after a failure */
    PROCESSES_UNKILLABLE_MS = 5000, /* after SIGKILL: a process that is still there hangs in the kernel */
};

/*
 * How many processes descend from the launcher and live. With number != 0, sends each that signal. What is older than
 * `first`, the process of the first rank, is not counted: children of a shell that became ddprun by exec. `processes`:
 * scratch.
 */
size_t processes_signal_descendants(struct process_list *processes, pid_t first, int number);

/* Sends a signal to the groups of pids[count]. */
void processes_signal_groups(const pid_t *pids, int count, int number);

/* To groups and descendants; a stopped process is continued, so that it can end. */
void processes_signal_all(struct process_list *processes, const pid_t *pids, int count, int number);

/* Takes away what has ended. */
void processes_reap(void);

#endif

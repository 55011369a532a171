/*
 * process_state.h - what /proc says of one process or thread, for the supervisor's looks and reports.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_PROCESS_STATE_H
#define DDPRUN_LAUNCHER_WATCH_PROCESS_STATE_H

#include <stdbool.h>
#include <sys/types.h>

struct process_state {
    char name[64]; /* as the program or thread calls itself, printable */
    char state;    /* R, S, D, T (stopped), t (stopped by a debugger), Z, ... */
    pid_t parent;
};

/* `thread`: 0 for the process itself. False: no such process or thread, or /proc cannot be read. */
bool process_state_read(pid_t pid, pid_t thread, struct process_state *state) __attribute__((warn_unused_result));

/* Stopped by a signal or a debugger. */
bool process_state_is_stopped(pid_t pid);

/* Whether `ancestor` is the process or one of its ancestors. */
bool process_state_descends(pid_t pid, pid_t ancestor);

#endif

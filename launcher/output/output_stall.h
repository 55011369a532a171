/*
 * output_stall.h - whether the reader of what the job prints has stalled: a pager that waits for its user, a terminal
 * after Ctrl-S.
 *
 * A rank that prints then waits for that reader, and keeps the others waiting: no fault of it, and no hang.
 */
#ifndef DDPRUN_LAUNCHER_OUTPUT_OUTPUT_STALL_H
#define DDPRUN_LAUNCHER_OUTPUT_OUTPUT_STALL_H

#include <stdbool.h>
#include <stdint.h>

struct output_stall {
    uint64_t since_ns; /* 0: stdout and stderr take what is written */
    bool told;
};

/* Whether stdout or stderr takes nothing now. Reports this once if it has lasted for `warning_ns`; 0: never. Never
 * waits. */
bool output_stall_look(struct output_stall *stall, uint64_t now_ns, uint64_t warning_ns);

#endif

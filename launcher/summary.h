/*
 * summary.h - how a job ended, as a file for other programs: --summary-json.
 */
#ifndef DDPRUN_LAUNCHER_SUMMARY_H
#define DDPRUN_LAUNCHER_SUMMARY_H

#include "launcher/problem.h"
#include "launcher/verdict.h"

/* Before anything is started: whether `path` (NULL: not asked for) can be written. Problem (DDPRUN_EXIT_USAGE): not. */
bool summary_check(const char *path, struct problem *problem) __attribute__((warn_unused_result));

/* What becomes of a job. */
struct summary {
    const struct rank_view *ranks;
    int rank_count;
    int exit_code;
    const char *reason; /* of a failure; NULL or "": none */
    double seconds;     /* from the first rank's start to the end */
};

/*
 * Writes the file, whole or not at all: { "exit_code", "reason" (or null), "ranks", "seconds", "steps",
 * "overlapped_steps", "graph_steps", "gradients", "gradient_bytes", "buckets", "comparisons", "parameter_hash" (or
 * null) }. A failure is told by `say`.
 */
void summary_write(const char *path, const struct summary *summary, void (*say)(const char *format, ...));

#endif

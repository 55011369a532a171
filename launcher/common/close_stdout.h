/*
 * close_stdout.h - the end of what ddprun itself prints to stdout: help, --version, --dry-run, what tools find.
 *
 * Not for a job's output, which relay.c passes on. Main thread.
 */
#ifndef DDPRUN_LAUNCHER_COMMON_CLOSE_STDOUT_H
#define DDPRUN_LAUNCHER_COMMON_CLOSE_STDOUT_H

#include <stdio.h>

/* Writes what is left in `out`. Returns ddprun's exit code: 0, or DDPRUN_EXIT_FAILURE after a message if not all of it
 * could be written. */
int close_stdout(FILE *out) __attribute__((warn_unused_result));

#endif

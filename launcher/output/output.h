/*
 * output.h - where a rank's stdout and stderr go: the launcher's own, a pipe that a relay reads, a file, nowhere.
 */
#ifndef DDPRUN_LAUNCHER_OUTPUT_OUTPUT_H
#define DDPRUN_LAUNCHER_OUTPUT_OUTPUT_H

#include "launcher/common/error.h"
#include "launcher/options/options.h"
#include "launcher/start/spawn.h"

/*
 * Makes the folder `dir`, which `option` asks for, or finds it; `only_looks`: only whether that would do. Error
 * (DDPRUN_EXIT_USAGE): it cannot be had.
 */
bool output_prepare_folder(const char *dir, const char *option, bool only_looks, struct error *error) MUST_USE;

/* The same for --output files=DIR, if that was asked for. Error (DDPRUN_EXIT_USAGE): it cannot be had. */
bool output_prepare(const struct options *options, struct error *error) MUST_USE;

/*
 * Fills in what `order` says of output, for order->rank of `rank_count`. Opens files, which the launcher closes with
 * output_close() once the rank has been started. Error (DDPRUN_EXIT_FAILURE): a file cannot be written.
 */
bool output_choose(const struct options *options, int rank_count, struct spawn_order *order,
                   struct error *error) MUST_USE;
void output_close(struct spawn_order *order);

/* In the end: warns of a place for files (of --output, or `trace_dir`; NULL: none) that is full. */
void output_warn_full(const struct options *options, const char *trace_dir);

#endif

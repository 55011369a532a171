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

/* ---- earlier.c: what earlier runs, or earlier attempts of this one, have written there ---- */

/* The ranks that this launcher starts, of `world_size`. */
struct output_ranks {
    int first, count, world_size;
};

/*
 * With --output files=DIR: moves the files of these ranks, for rank 0 also those of ranks that this job lacks, to
 * DIR/earlier-K with the first K that is free, so that nothing of another run is overwritten or taken for this one's.
 * Of launchers that start a rank each, each moves its own. Error (DDPRUN_EXIT_USAGE): a running job writes there;
 * (DDPRUN_EXIT_FAILURE): a file cannot be moved.
 */
bool output_set_aside(const struct options *options, const struct output_ranks *ranks, struct error *error) MUST_USE;

/* Whether a running job has this file open. It holds the lock of each of its files as long as the rank, or the relay,
 * has it open. Pipes and file systems without locks have none. */
bool output_is_of_running_job(int fd);

/* Error (DDPRUN_EXIT_USAGE): that it writes into `dir`. */
bool output_refuse_running(const char *dir, struct error *error);

/* ---- output.c ---- */

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

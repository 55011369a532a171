/*
 * output.h - where a rank's stdout and stderr go: the launcher's own, a pipe that a relay reads, a file, nowhere.
 */
#ifndef DDPRUN_LAUNCHER_OUTPUT_OUTPUT_H
#define DDPRUN_LAUNCHER_OUTPUT_OUTPUT_H

#include "launcher/common/error.h"
#include "launcher/options/options.h"
#include "launcher/start/spawn.h"

#include <poll.h>
#include <stddef.h>

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

/* ---- what is typed at a terminal, carried to rank 0 ---- */
/*
 * Rank 0 runs in a process group of its own, so that it can be ended with all that it started; a terminal would stop
 * such a group for reading. The launcher therefore stays in the foreground, where Ctrl-C reaches it, reads the
 * terminal itself, and hands on through a pipe. Where stdin is no terminal, rank 0 has it directly and none of this
 * is used. Supervisor's thread only.
 */

struct terminal_input {
    int read_end;  /* for rank 0; close it after the start. -1: stdin is no terminal */
    int write_end; /* -1: closed */
    size_t begin, end;
    char bytes[4096]; /* [begin, end) wait for the pipe */
};

bool terminal_input_open(struct terminal_input *input, struct error *error) MUST_USE;

/* Fills in what to wait for next; fd -1 if nothing. Reads the terminal only while the launcher is in its foreground. */
void terminal_input_poll(const struct terminal_input *input, struct pollfd *polled);

/* Moves bytes, after poll() has returned with `polled` filled in by terminal_input_poll(). Never blocks. */
void terminal_input_move(struct terminal_input *input, const struct pollfd *polled);

void terminal_input_close(struct terminal_input *input);

#endif

/*
 * terminal_input.h - what is typed at a terminal, carried to rank 0.
 *
 * Rank 0 runs in a process group of its own, so that it can be ended with all that it started; a terminal would stop
 * such a group for reading. The launcher therefore stays in the foreground, where Ctrl-C reaches it, reads the
 * terminal itself, and hands on through a pipe. Where stdin is no terminal, rank 0 has it directly and none of this
 * is used. Supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_OUTPUT_TERMINAL_INPUT_H
#define DDPRUN_LAUNCHER_OUTPUT_TERMINAL_INPUT_H

#include "launcher/common/error.h"

#include <poll.h>
#include <stddef.h>

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

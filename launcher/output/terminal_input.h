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
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

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

/* ---- the stdin of the other ranks ---- */
/*
 * An empty file in memory, which reads as /dev/null does. Its time of access tells whether a rank has read it: a
 * program may take settings from there, which rank 0 alone gets.
 */
struct empty_input {
    int fd; /* for the ranks above 0; -1: they have /dev/null, and none is watched */
    struct timespec unread;
    bool is_told;
};

/* Where ddprun's own stdin is /dev/null, or the system has no such files, there is none. */
struct empty_input empty_input_open(void);

/* Warns once that a rank has read it. */
void empty_input_look(struct empty_input *input);
void empty_input_close(struct empty_input *input);

#endif

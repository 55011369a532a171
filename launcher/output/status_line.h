/*
 * status_line.h - one line of text at the bottom of a terminal, below whatever else is written to it.
 *
 * Rank 0 writes to the same terminal by itself, at any time and not only whole lines, so the line must not share a row
 * with what scrolls: the last row is taken out of the scrolling region (DECSTBM), as package managers do, and every
 * change of it goes out in one write() that begins and ends at rank 0's cursor (DECSC, DECRC). The sequences are those
 * of the VT100, which all terminals in use today know; ECMA-48 and the VT100 user guide describe them.
 *
 * Nothing here waits: a terminal that is held (Ctrl-S) is tried again at the next change. One thread.
 */
#ifndef DDPRUN_LAUNCHER_OUTPUT_STATUS_LINE_H
#define DDPRUN_LAUNCHER_OUTPUT_STATUS_LINE_H

#include <stdbool.h>
#include <stddef.h>

struct status_line {
    int fd; /* the terminal, opened anew so that no other process's descriptor becomes non-blocking; -1: none */
    int rows, columns; /* while shown */
    bool shown;
    size_t begin, end; /* [begin, end) of `bytes` have not been taken by the terminal yet */
    char bytes[1024];
};

/* Whether `terminal` is one on which the line can be shown: a terminal, not a dumb one, that can be opened. */
bool status_line_open(struct status_line *line, int terminal);

/*
 * Shows `text`, cut to the width: plain ASCII, no control characters. Does nothing while the terminal is held, is too
 * small, or belongs to another job of the shell.
 */
void status_line_draw(struct status_line *line, const char *text);

/* Takes the line away and gives the row back; draw() shows it again. */
void status_line_clear(struct status_line *line);

/* Clears and closes. */
void status_line_close(struct status_line *line);

#endif

/* status_line.c - see status_line.h. */
#include "launcher/output/status_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { LEAST_ROWS = 5, LEAST_COLUMNS = 30, MOST_COLUMNS = 400 };

#define SAVE    "\0337"
#define RESTORE "\0338"
/* Down one row in the same column, scrolling at the bottom; up one row: then the cursor is not in the last row. */
#define DOWN "\033D"
#define UP   "\033[A"

bool
status_line_open(struct status_line *line, int terminal)
{
    const char *term = getenv("TERM");
    char path[32];
    *line = (struct status_line){.fd = -1};
    if (!isatty(terminal) || term == NULL || term[0] == '\0' || strcmp(term, "dumb") == 0)
        return false;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", terminal);
    line->fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    return line->fd >= 0;
}

/* Returns whether the terminal has taken all that was meant for it. */
static bool
flush(struct status_line *line)
{
    while (line->begin < line->end) {
        ssize_t written = write(line->fd, line->bytes + line->begin, line->end - line->begin);
        if (written > 0)
            line->begin += (size_t)written;
        else if (errno == EAGAIN)
            return false;
        else if (errno != EINTR)
            line->begin = line->end; /* the terminal is gone: the line cannot be seen */
    }
    line->begin = line->end = 0;
    return true;
}

static void __attribute__((format(printf, 2, 3))) put(struct status_line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int count = vsnprintf(line->bytes + line->end, sizeof(line->bytes) - line->end, format, args);
    va_end(args);
    if (count > 0 && (size_t)count < sizeof(line->bytes) - line->end)
        line->end += (size_t)count;
}

/* The shell has given the terminal to another job: this one was sent to the background. */
static bool
is_background_process_group(const struct status_line *line)
{
    pid_t foreground = tcgetpgrp(line->fd);
    return foreground > 0 && foreground != getpgrp();
}

void
status_line_draw(struct status_line *line, const char *text)
{
    struct winsize size;
    if (line->fd < 0 || !flush(line) || is_background_process_group(line) || ioctl(line->fd, TIOCGWINSZ, &size) != 0)
        return;
    if (size.ws_row < LEAST_ROWS || size.ws_col < LEAST_COLUMNS) {
        status_line_clear(line);
        return;
    }
    if (!line->shown || line->rows != size.ws_row) {
        /* After a change of size the terminal may have moved lines: what stood in the old row is left alone. */
        put(line, DOWN SAVE "\033[1;%dr" RESTORE UP, size.ws_row - 1);
        line->rows = size.ws_row;
    }
    line->columns = size.ws_col < MOST_COLUMNS ? size.ws_col : MOST_COLUMNS;
    line->shown = true;
    put(line, SAVE "\033[%d;1H\033[0m\033[2K%.*s" RESTORE, line->rows, line->columns - 1, text);
    (void)flush(line);
}

void
status_line_clear(struct status_line *line)
{
    if (line->fd < 0 || !line->shown || !flush(line))
        return;
    line->shown = false;
    put(line, SAVE "\033[%d;1H\033[2K\033[r" RESTORE, line->rows);
    (void)flush(line);
}

void
status_line_close(struct status_line *line)
{
    status_line_clear(line);
    if (line->fd < 0)
        return;
    (void)flush(line); /* of an earlier clear, while the terminal was held */
    close(line->fd);
    line->fd = -1;
}

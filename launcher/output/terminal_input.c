/* terminal_input.c - see terminal_input.h. */
#include "launcher/output/terminal_input.h"

#include "base/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool
terminal_input_open(struct terminal_input *input, struct error *error)
{
    *input = (struct terminal_input){.read_end = -1, .write_end = -1};
    if (!isatty(STDIN_FILENO))
        return true;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a pipe: %s; raise the limit of open files",
                         strerror(errno));
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    input->read_end = ends[0];
    input->write_end = ends[1];
    return true;
}

void
terminal_input_poll(const struct terminal_input *input, struct pollfd *polled)
{
    *polled = (struct pollfd){.fd = -1};
    if (input->write_end < 0)
        return;
    if (input->begin < input->end)
        *polled = (struct pollfd){.fd = input->write_end, .events = POLLOUT};
    else if (tcgetpgrp(STDIN_FILENO) == getpgrp())
        *polled = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
}

static void
close_write_end(struct terminal_input *input)
{
    close(input->write_end);
    input->write_end = -1;
}

void
terminal_input_move(struct terminal_input *input, const struct pollfd *polled)
{
    if (input->write_end < 0 || polled->fd < 0 || polled->revents == 0)
        return;
    if (polled->fd == STDIN_FILENO) {
        ssize_t got = read(STDIN_FILENO, input->bytes, sizeof(input->bytes));
        if (got > 0) {
            input->begin = 0;
            input->end = (size_t)got;
        } else if (got == 0 || (polled->revents & POLLHUP) != 0) {
            close_write_end(input); /* Ctrl-D, or the terminal is gone */
        }                           /* else: EIO, we went to the background in between; or EINTR */
        return;
    }
    ssize_t written = write(input->write_end, input->bytes + input->begin, input->end - input->begin);
    if (written > 0)
        input->begin += (size_t)written;
    else if (errno != EAGAIN && errno != EINTR)
        close_write_end(input); /* rank 0 does not read any more */
}

void
terminal_input_close(struct terminal_input *input)
{
    if (input->read_end >= 0)
        close(input->read_end);
    if (input->write_end >= 0)
        close(input->write_end);
    input->read_end = input->write_end = -1;
}

/* terminal_input.c - see terminal_input.h. */
#include "launcher/output/terminal_input.h"

#include "base/message.h"
#include "base/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
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

/* ---- the stdin of the other ranks ---- */

/* null(4). */
static bool
is_nothing(int fd)
{
    enum { NULL_MAJOR = 1, NULL_MINOR = 3 };
    struct stat file;
    return fstat(fd, &file) != 0 || (S_ISCHR(file.st_mode) && file.st_rdev == makedev(NULL_MAJOR, NULL_MINOR));
}

static bool
was_accessed(const struct empty_input *input)
{
    struct stat file;
    return fstat(input->fd, &file) == 0 &&
           (file.st_atim.tv_sec != input->unread.tv_sec || file.st_atim.tv_nsec != input->unread.tv_nsec);
}

struct empty_input
empty_input_open(void)
{
    struct empty_input input = {.fd = -1};
    struct stat file;
    char path[64];
    int written = is_nothing(STDIN_FILENO) ? -1 : memfd_create("stdin", MFD_CLOEXEC);
    if (written < 0)
        return input;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", written);
    input.fd = open(path, O_RDONLY | O_CLOEXEC);
    if (input.fd >= 0 && fstat(input.fd, &file) == 0)
        input.unread = file.st_atim;
    close(written);
    return input;
}

void
empty_input_look(struct empty_input *input)
{
    if (input->fd < 0 || input->is_told || !was_accessed(input))
        return;
    input->is_told = true;
    message_warning("stdin_read",
                    "a rank above 0 has read its stdin, which is empty: only rank 0 gets that of ddprun; pass what all "
                    "ranks need as arguments or in a file");
}

void
empty_input_close(struct empty_input *input)
{
    if (input->fd >= 0)
        close(input->fd);
    input->fd = -1;
}

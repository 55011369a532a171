/*
 * messages.h - what ddprun itself says, carried to stderr by a thread: the supervisor must end ranks and take signals
 * also while no process reads stderr.
 *
 * While messages are open, message_line() puts them into a pipe, from which a relay writes them. What goes beyond the
 * MESSAGES_BYTES that may be unread is lost. One in a process; main thread.
 */
#ifndef DDPRUN_LAUNCHER_OUTPUT_MESSAGES_H
#define DDPRUN_LAUNCHER_OUTPUT_MESSAGES_H

#include "launcher/common/signals.h"
#include "launcher/output/relay.h"

enum { MESSAGES_BYTES = 1 << 20 }; /* where the system allows it, else what a pipe holds */

struct messages {
    struct relay *relay; /* NULL: not open, messages are written directly */
    int fd;              /* our end of the pipe */
};

/* Signals that ask for the end are blocked, and read from a descriptor, from before this call until after the close. */
bool messages_open(struct messages *messages, struct error *error) __attribute__((warn_unused_result));

/*
 * Returns when all messages have been written; with `hurried` after `limit_ms` at most; and at a signal that asks for
 * the end. What has not been read by then is lost. Does nothing if they are not open.
 */
void messages_close(struct messages *messages, const struct signals *signals, bool hurried, int limit_ms);

#endif

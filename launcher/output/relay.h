/*
 * relay.h - carries what ranks print to the launcher's stdout or stderr, line by line, each with the rank in front.
 *
 * Relays run beside the supervisor as threads, one for each stream and one for our own messages (below): only they
 * wait for a slow terminal or a full pipe. A rank that prints faster than that waits itself (its pipe is full); memory
 * stays at 64 KiB for each rank and stream.
 *
 *   [3] a line                     lines come out whole; the last one of a stream gets its newline if it had none
 *   [h2:3] a line                  where the job has several hosts
 *   2026-03-01T14:02:59.125Z [3] a line     with the time, in UTC (ISO 8601)
 *   [3]+rest of a long line        what does not fit into 64 KiB comes in pieces, each on a line
 *
 * Of a source that is held back only lines of ddprun come through; relays_ask_last() has the last others shown at the
 * end.
 *
 * Rank 0 comes through unchanged. Where its output is no terminal it is relayed too, so that lines of other ranks stand
 * between its lines and not inside of them (a program that writes to a file or pipe does so in blocks, not in lines).
 *
 * A target that has no reader any more ends, by SIGPIPE, the ranks that continue to write. One that cannot be written
 * for another reason, such as a full disk, loses what was to be written, and a line on stderr reports this loss once.
 */
#ifndef DDPRUN_LAUNCHER_OUTPUT_RELAY_H
#define DDPRUN_LAUNCHER_OUTPUT_RELAY_H

#include "launcher/common/error.h"
#include "launcher/common/signals.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relay;

/* Where lines come from. The relay takes over (and closes) the descriptors. */
struct relay_source {
    int fd;
    int rank;
    bool unchanged;   /* without a prefix, byte for byte */
    bool has_time;    /* each line begins with the time at which it is passed on */
    const char *host; /* in the prefix; NULL: not */
    bool has_stderr;  /* the rank's stderr is in it: relays_ask_last() */
    bool held_back;
    int copy; /* what it brings is written there, too; 0 or -1: nowhere */
};

/* Starts a relay to descriptor `target`, which is not closed. `colour`: prefixes are coloured by rank. */
bool relay_start(int target, const struct relay_source *sources, int count, bool colour, struct relay **relay,
                 struct error *error) MUST_USE;

/*
 * The last line that a rank has written to its stderr, made printable, into text[bytes], which stays as it is where no
 * relay (NULL: there is none) reads that. For a rank that has ended: what is in the pipe is waited for, 0.1 s at most.
 * What is held back of the rank is shown once relay_finish() has been called; text NULL: only this. Any thread.
 */
void relays_ask_last(struct relay *const relays[2], int rank, char *text, size_t bytes);

/* Asks the relay to pass on what has been written so far, and then to leave. */
void relay_finish(struct relay *relay);

/* Readable once the relay has left. */
int relay_fd(const struct relay *relay);

/* Releases a relay that has left (relay_fd() is readable). NULL is ignored. */
void relay_free(struct relay *relay);

/* For a relay that may not have left, as its target is not read: it ends with the process. NULL is ignored. */
void relay_abandon(struct relay *relay);

/* ---- the reader ---- */

/* It has stalled: a pager that waits for its user, a terminal after Ctrl-S. A rank that prints then waits for it, and
 * keeps the others waiting: no fault of the rank, and no hang. */
struct output_stall {
    uint64_t since_ns; /* 0: stdout and stderr take what is written */
    bool told;
};

/* Whether stdout or stderr takes nothing now. Reports this once if it has lasted for `warning_ns`; 0: never. Never
 * waits. */
bool output_stall_look(struct output_stall *stall, uint64_t now_ns, uint64_t warning_ns);

/* ---- messages.c ---- */
/*
 * What ddprun itself says, carried to stderr by a thread: the supervisor must end ranks and take signals also while
 * no process reads stderr.
 *
 * While messages are open, message_line() puts them into a pipe, from which a relay writes them. What goes beyond
 * the MESSAGES_BYTES that may be unread is lost. One in a process; main thread.
 */

enum { MESSAGES_BYTES = 1 << 20 }; /* where the system allows it, else what a pipe holds */

struct messages {
    struct relay *relay; /* NULL: not open, messages are written directly */
    int fd;              /* our end of the pipe */
};

/* Signals that ask for the end are blocked, and read from a descriptor, from before this call until after the close. */
bool messages_open(struct messages *messages, struct error *error) MUST_USE;

/*
 * Returns when all messages have been written; with `hurried` after `limit_ms` at most; and at a signal that asks for
 * the end. What has not been read by then is lost. Does nothing if they are not open.
 */
void messages_close(struct messages *messages, const struct signals *signals, bool hurried, int limit_ms);

#endif

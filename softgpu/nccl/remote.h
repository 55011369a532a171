/*
 * remote.h - one rank's connections to the ranks of other hosts: what it writes into its slot is sent to them, and
 * what they write is received into the mirrors of the segment, by an operation that waits for it or else by a thread
 * of the remote's own.
 *
 * Who sends may wait until the receiver, which never waits for anything but data, has taken what was sent before; there
 * is always room for it, because the rank that writes has waited for the progress that frees the place (the same waits
 * as in shared memory). A connection that breaks makes its rank one that cannot be waited for, and nothing more: the
 * operations find out.
 *
 * Called by segment_progress.c and point_to_point.c (data and state), spread.c (makes it), exchange.c (ends it).
 */
#ifndef SOFTGPU_NCCL_REMOTE_H
#define SOFTGPU_NCCL_REMOTE_H

#include "nccl/segment.h"

struct remote;

/*
 * Takes over connected sockets, noted in inherited.h, sockets[r] for each rank r that has a mirror, and starts to
 * receive. False with errno set, and the sockets still the caller's. On success segment->remote is set.
 */
bool remote_start(struct segment *segment, const int *sockets);

/* Waits until all that was sent has arrived or cannot any more (some seconds at most), ends the thread, closes. */
void remote_stop(struct segment *segment);

/*
 * What is sent to each rank of another host; from the thread that runs the rank's operations, one at a time. They
 * return when the data can be overwritten, but that staged data and a signature that is held are sent with the progress
 * that follows. A rank that cannot be reached is left out: its health shows it.
 */
void remote_progress(struct remote *remote, enum progress which, uint32_t value);
void remote_signature(struct remote *remote, uint32_t number, const struct operation_signature *signature,
                      bool is_held);
void remote_staged(struct remote *remote, int peer, enum staging which, uint32_t stage, size_t offset, const void *data,
                   size_t bytes);
void remote_piece(struct remote *remote, int peer, uint32_t type, uint64_t message_bytes, const void *data,
                  size_t bytes);
void remote_taken(struct remote *remote, int peer, uint32_t taken);

/* The same, from any thread; gives up on a rank that takes nothing for a second. `text` is SEGMENT_TEXT_BYTES long. */
void remote_state(struct remote *remote, enum rank_state state, const char *text);
void remote_note(struct remote *remote, uint64_t tag, const void *note, size_t bytes);

/*
 * How the thread that runs the rank's operations waits for a rank of another host: it counts itself into
 * remote_waiters(), looks at what it waits for, and calls remote_wait(), which receives in this thread, until it is
 * there. remote_wait() returns when anything has come, was received by the other thread or is to be looked at because
 * of remote_wake() (from any thread), or after `timeout_ms`.
 */
_Atomic uint32_t *remote_waiters(struct remote *remote);
void remote_wait(struct remote *remote, int timeout_ms);
void remote_wake(struct remote *remote);

/* WAIT_REACHED, or why nothing more can come from `peer`. Any thread. */
enum wait_result remote_health(const struct remote *remote, int peer);

#endif

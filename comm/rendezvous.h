/*
 * rendezvous.h - which rank am I, and how do I reach the others?
 *
 * The launcher's supervisor on this host knows this rank's place and has connected it with the others; this process
 * asks on a socket in the job folder (base/supervisor_link.h). What ranks say to each other while they train goes
 * through control.h.
 *
 * One rendezvous in a process.
 */
#ifndef DDPRUN_COMM_RENDEZVOUS_H
#define DDPRUN_COMM_RENDEZVOUS_H

#include "comm/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rendezvous {
    int rank;
    int world_size;
    int local_rank;
    unsigned generation; /* how many programs were this rank before */
    bool open;
};

/* Joins the job as the rank of record `index`, once the supervisor has answered; at most timeout_s seconds. */
bool rendezvous_open(struct rendezvous *rendezvous, int index, unsigned generation, int timeout_s,
                     struct comm_error *error) __attribute__((warn_unused_result));

/*
 * Connected sockets to the other ranks, which the caller owns: on rank 0 links[world_size] with its own left as it is,
 * on other ranks links[0], to rank 0. Collective; waits at most timeout_s seconds.
 */
bool rendezvous_links(struct rendezvous *rendezvous, int *links, int timeout_s, struct comm_error *error)
    __attribute__((warn_unused_result));

/*
 * Collective, at the same place of all ranks: rank 0's bytes are in out[bytes] after the call; `mine` of others is not
 * read. `key` is for messages. Waits at most timeout_s seconds for the others. After rendezvous_links(), and not
 * beside an exchange over them.
 */
bool rendezvous_share(struct rendezvous *rendezvous, const char *key, const void *mine, void *out, size_t bytes,
                      int timeout_s, struct comm_error *error) __attribute__((warn_unused_result));

/* Asks the launcher to end the whole job, for the reason in this rank's status record. */
void rendezvous_abort(struct rendezvous *rendezvous);

/* Whether the launcher has gone without ending this process. Any thread. */
bool rendezvous_launcher_is_gone(void);

/* Leaves cleanly. */
void rendezvous_close(struct rendezvous *rendezvous);

/* In a forked child: lets go of what the parent continues to use. */
void rendezvous_forget(struct rendezvous *rendezvous);

/* ---- transfer.c ---- */
/*
 * Whole messages over sockets, with a limit of time. Any thread; one reader and one writer for a socket.
 */

enum transfer {
    TRANSFER_DONE,
    TRANSFER_LATE,
    TRANSFER_GONE,   /* the other end is closed */
    TRANSFER_CLOSED, /* this one is: the descriptor is no socket any more */
};

/* Waits until `fd` is ready for `events` (poll); false when the deadline (clock_now_ms) passes. */
bool transfer_wait(int fd, short events, int64_t deadline_ms);

/* All `bytes`, or none that count: the others leave the stream in the middle of a message. */
enum transfer transfer_send(int fd, const void *data, size_t bytes, int64_t deadline_ms);
enum transfer transfer_receive(int fd, void *data, size_t bytes, int64_t deadline_ms);

#endif

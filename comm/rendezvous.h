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

#include "base/peer_link.h"
#include "comm/error.h"

#include <stdbool.h>

struct rendezvous {
    int rank;
    int world_size;
    int local_rank;
    unsigned generation; /* how many programs were this rank before */
    bool open;
};

/* Joins the job as the rank of record `index`, once the supervisor has answered; at most timeout_s seconds. */
bool rendezvous_open(struct rendezvous *rendezvous, int index, unsigned generation, int timeout_s,
                     struct comm_error *error) MUST_USE;

/*
 * Connections to the other ranks, which the caller owns: on rank 0 links[world_size] with its own left as it is, on
 * other ranks links[0], to rank 0; all without a descriptor before. Collective; waits at most timeout_s seconds.
 */
bool rendezvous_links(struct rendezvous *rendezvous, struct peer_link *links, int timeout_s,
                      struct comm_error *error) MUST_USE;

/* Asks the launcher to end the whole job, for the reason in this rank's status record. */
void rendezvous_abort(struct rendezvous *rendezvous);

/* Whether the launcher has gone without ending this process. Any thread. */
bool rendezvous_launcher_is_gone(void);

/* Leaves cleanly. */
void rendezvous_close(struct rendezvous *rendezvous);

/* In a forked child: lets go of what the parent continues to use. */
void rendezvous_forget(void);

#endif

/*
 * rendezvous.h - which rank am I, and how do I reach the others? The PMIx client.
 *
 * The same calls under ddprun's own server, Slurm, OpenMPI and PRRTE. Used once at start-up to exchange a few blobs;
 * what ranks say to each other while they train goes through control.h, because PMIx keeps every value ever published.
 *
 * One rendezvous in a process. Not in a forked child: PMIx there hangs (facts), so the shim turns the hooks off.
 */
#ifndef DDPRUN_COMM_RENDEZVOUS_H
#define DDPRUN_COMM_RENDEZVOUS_H

#include "comm/error.h"

#include <stdbool.h>
#include <stddef.h>

struct rendezvous {
    int rank;
    int world_size;
    int local_rank;
    bool open;
    void *state;
};

/* Joins the job. Threads that PMIx starts block all signals. */
bool rendezvous_open(struct rendezvous *rendezvous, struct comm_error *error) __attribute__((warn_unused_result));

/*
 * Collective, once for each `key`: every rank may publish bytes under it (NULL: nothing), and after the call rank 0's
 * are in out[bytes]. Waits at most timeout_s seconds for the others.
 */
bool rendezvous_share(struct rendezvous *rendezvous, const char *key, const void *mine, void *out, size_t bytes,
                      int timeout_s, struct comm_error *error) __attribute__((warn_unused_result));

/* Asks the launcher to end the whole job, with `status` as its exit code. Returns when it has been told. */
void rendezvous_abort(struct rendezvous *rendezvous, int status, const char *message);

/*
 * Whether the launcher has gone without ending this process: PMIx notices about a second later. Any thread.
 */
bool rendezvous_launcher_is_gone(void);

/* Leaves in order. */
void rendezvous_close(struct rendezvous *rendezvous);

#endif

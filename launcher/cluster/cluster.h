/*
 * cluster.h - as one of several processes: which rank is this supervisor, and exchanges with the others. They meet by
 * PMIx (srun --mpi=pmix, mpirun, prterun), where the supervisor is the client and the trainer is not, for two processes
 * would then be one rank (facts); or at an address that variables or options name. member.h has the calls that differ.
 *
 * One in a process, used by one thread.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_CLUSTER_H
#define DDPRUN_LAUNCHER_CLUSTER_CLUSTER_H

#include "launcher/cluster/member.h"
#include "launcher/cluster/supervisor_server.h"
#include "launcher/common/error.h"
#include "launcher/common/signals.h"

#include <stddef.h>

struct cluster {
    int rank, world_size, local_rank, local_size;
    const struct cluster_member *member; /* NULL: not joined */
    int claim;                           /* by PMIx, held as long as this process is the rank; else -1 */
};

/*
 * Joins the job that `launched` is of. Error: PMIx cannot be opened, or refuses, or another ddprun is this rank
 * already; the others have not come to the address, or do not share the secret; a signal asked for the end.
 */
bool cluster_join(struct cluster *cluster, const struct launched *launched, const struct cluster_terms *terms,
                  const struct signals *signals, struct error *error) MUST_USE;

/*
 * Collective, once for each `key`: gives `mine` to all; blobs[rank] is what each has given. Waits for the others at
 * most `timeout_s`, and serves the clients of `server` meanwhile, if it is not NULL. Error: they have not come, the
 * exchange failed, or a signal asked for the end (then its exit code is 128 + signal).
 */
bool cluster_exchange(struct cluster *cluster, const struct signals *signals, const char *key, const void *mine,
                      size_t bytes, int timeout_s, struct supervisor_server *server, struct cluster_blob *blobs,
                      struct error *error) MUST_USE;

/* Collective: returns when all have come, or a few seconds are over. */
void cluster_wait_for_all(struct cluster *cluster, const struct signals *signals);

/* In place of the first exchange: this process cannot take part, for this reason. The others hear it if they can be
 * reached within a few seconds. */
void cluster_tell(struct cluster *cluster, const struct signals *signals, const struct error *why);

/* Leaves in order, which makes this process's end a good one for the launcher. */
void cluster_leave(struct cluster *cluster);

#endif

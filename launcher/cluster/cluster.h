/*
 * cluster.h - under a cluster's launcher (srun --mpi=pmix, mpirun, prterun): which rank is this supervisor, and one
 * exchange with the others. The supervisor is the PMIx client (pmix/member.h); the trainer is not a PMIx client, for
 * two processes would then be one rank (facts).
 *
 * One in a process, used by one thread.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_CLUSTER_H
#define DDPRUN_LAUNCHER_CLUSTER_CLUSTER_H

#include "launcher/common/error.h"
#include "launcher/common/signals.h"

#include <stddef.h>

struct pmix_member;

struct cluster {
    int rank, world_size, local_rank, local_size;
    int pipe[2]; /* readable: an exchange is complete, or the launcher is gone */
    int claim;   /* held as long as this process is the rank */
};

/* Joins the launcher's job. Error: PMIx cannot be opened, or refuses, or another ddprun is this rank already. */
bool cluster_join(struct cluster *cluster, struct error *error) __attribute__((warn_unused_result));

/* What one rank has published; malloc'ed. */
struct cluster_blob {
    void *bytes;
    size_t count;
};

/* What is to be done while others are waited for: step(data) when `fd` is readable, and now and then. */
struct cluster_idle_callback {
    int fd;
    void (*step)(void *data);
    void *data;
};

/*
 * Collective, once for each `key`: gives `mine` to all; blobs[rank] is what each has given. Waits for the others at
 * most `timeout_s`, and calls `idle` meanwhile, if there is one. Error: they have not come, PMIx failed, or a
 * signal asked for the end (then its exit code is 128 + signal).
 */
bool cluster_exchange(struct cluster *cluster, const struct signals *signals, const char *key, const void *mine,
                      size_t bytes, int timeout_s, const struct cluster_idle_callback *idle, struct cluster_blob *blobs,
                      struct error *error) __attribute__((warn_unused_result));

/* Collective: returns when all have come, or a few seconds are over. */
void cluster_wait_for_all(struct cluster *cluster, const struct signals *signals);

/* Whether the launcher's own daemon has gone without ending this process; pipe[0] becomes readable then. */
bool cluster_launcher_is_gone(void);

/* Leaves in order, which makes this process's end a good one for the launcher. */
void cluster_leave(struct cluster *cluster);

/* Opens libddprun-pmix.so, which lies beside ddprun's other libraries. Stays open. NULL: the error
 * (DDPRUN_EXIT_NOT_RUN) says what is missing, and what to install. */
const struct pmix_member *pmix_library_open(struct error *error) __attribute__((warn_unused_result));

#endif

/*
 * bootstrap.h - how the ranks of a communicator find each other: one host, an abstract Unix socket named in the unique
 * id.
 *
 * The process that makes a unique id listens on the socket with a small thread. Each rank connects, shows the id's
 * secret, and hands over a pidfd of itself; once all are there, each gets the memfd of the shared segment and
 * everybody's pidfd. Nothing is created that has a path. Both sides check that the other belongs to the same user.
 *
 * Called by comm.c. Nothing here calls CUDA.
 */
#ifndef SOFTGPU_NCCL_BOOTSTRAP_H
#define SOFTGPU_NCCL_BOOTSTRAP_H

#include "nccl/segment.h"

#include <nccl.h>
#include <pthread.h>

/* Where a function below says why it failed. */
struct bootstrap_error {
    char text[SEGMENT_TEXT_BYTES];
};

/*
 * Makes an id that can be used for one communicator, and starts the thread that serves it (all signals blocked; it ends
 * when the ranks have met or one of them has gone wrong). Any thread.
 */
ncclResult_t bootstrap_create_id(ncclUniqueId *id, struct bootstrap_error *error);

/* A rank's connection while it waits for the others, so that another thread can end the wait. */
struct bootstrap_wait {
    pthread_mutex_t lock; /* guards what follows */
    int connection;       /* -1: none */
    bool is_cancelled;
};

#define BOOTSTRAP_WAIT_INITIALIZER                          \
    {                                                       \
        .lock = PTHREAD_MUTEX_INITIALIZER, .connection = -1 \
    }

/*
 * Meets the other ranks and maps the segment. Blocks until all are there, one of them has gone wrong, or the wait is
 * cancelled. On success this rank's state is RANK_JOINED. Any thread.
 */
ncclResult_t bootstrap_join(struct segment *segment, const ncclUniqueId *id, int rank, int rank_count,
                            struct bootstrap_wait *wait, struct bootstrap_error *error);

/* Makes bootstrap_join() with this wait, now or later, return an error at once. Any thread. */
void bootstrap_cancel(struct bootstrap_wait *wait);

#endif

/*
 * bootstrap.h - how the ranks of a communicator find each other.
 *
 * The process that makes a unique id listens with a small thread (the root): on an abstract Unix socket named in the
 * id, and on a TCP port of the interface that NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY choose, as NCCL does. Each rank
 * connects, by the Unix socket if it is on the same host, and shows the id's secret. If all come that
 * way, each gets the memfd of the shared segment and the pidfds of all ranks, and no rank listens anywhere. Otherwise
 * the root tells who is on which host; the ranks of each host meet on a Unix socket of their own, and ranks of
 * different hosts connect by TCP and show it to each other. Nothing is created that has a path, and no socket but those
 * between hosts outlives the meeting.
 *
 * What NCCL documents and this understands: NCCL_SOCKET_IFNAME, NCCL_SOCKET_FAMILY (address.h), NCCL_HOSTID (processes
 * with different ones count as different hosts), NCCL_COMM_ID=ADDRESS:PORT (every process makes the same id by itself,
 * and rank 0 serves it there). An id of the last kind holds no secret but SOFTGPU_NCCL_SECRET, which must be set unless
 * the address is loopback.
 *
 * Called by comm.c and split.c. Nothing here calls CUDA.
 */
#ifndef SOFTGPU_NCCL_BOOTSTRAP_H
#define SOFTGPU_NCCL_BOOTSTRAP_H

#include "nccl/segment.h"

#include <nccl.h>
#include <pthread.h>

/* Returns from the function that it stands in, with the result of the call, unless that is ncclSuccess. For the whole
 * folder; not where a lock is held, or something is to be released. */
#define TRY(call)                               \
    do {                                        \
        const ncclResult_t try_result = (call); \
        if (try_result != ncclSuccess)          \
            return try_result;                  \
    } while (false)

/* Where a function below says why it failed. */
struct bootstrap_error {
    char text[SEGMENT_TEXT_BYTES];
};

/*
 * Makes an id that can be used for one communicator, and starts the thread that serves it (all signals blocked; it ends
 * when the ranks have met or one of them has gone wrong). Any thread.
 */
ncclResult_t bootstrap_create_id(ncclUniqueId *id, struct bootstrap_error *error);

/* What ncclGetUniqueId gives: the id that NCCL_COMM_ID means, which no process serves yet; without it, as above. */
ncclResult_t bootstrap_get_id(ncclUniqueId *id, struct bootstrap_error *error);

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
 * Meets the other ranks, maps the segment and connects with other hosts. Blocks until all are there, one of them has
 * gone wrong, or the wait is cancelled. On success this rank's state is RANK_JOINED; otherwise the segment is as
 * segment_init() left it. Any thread.
 */
ncclResult_t bootstrap_join(struct segment *segment, const ncclUniqueId *id, int rank, int rank_count,
                            struct bootstrap_wait *wait, struct bootstrap_error *error);

/* Makes bootstrap_join() with this wait, now or later, return an error at once. Any thread. */
void bootstrap_cancel(struct bootstrap_wait *wait);

#endif

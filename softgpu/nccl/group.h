/*
 * group.h - ncclGroupStart and ncclGroupEnd: what a thread calls between them is kept and enqueued at the end.
 *
 * Of each communicator, first the collectives in the order of their calls, then all sends and receives as one kernel;
 * the same order on all ranks, whatever the order between the two kinds was. Each thread has a group of its own. A
 * communicator that does not block leaves the enqueueing to a thread, and the call returns ncclInProgress. Called by
 * operations.c (which checks the arguments), comm_api.c and split.c.
 */
#ifndef SOFTGPU_NCCL_GROUP_H
#define SOFTGPU_NCCL_GROUP_H

#include "nccl/collective.h"
#include "nccl/comm.h"
#include "nccl/point_to_point.h"

/* Enqueues a collective, at once or at the end of the open group. `premulsum` is NULL for NCCL's own operators. */
ncclResult_t group_collective(struct ncclComm *comm, const struct collective *collective,
                              const struct premulsum *premulsum, CUstream stream);

/* The same for a send or a receive. */
ncclResult_t group_transfer(struct ncclComm *comm, const struct transfer *transfer, CUstream stream);

/*
 * What ends the program's call after a start: sets *comm_p, and waits for the initialisation, or leaves that to the end
 * of the open group or (not blocking) to the program.
 */
ncclResult_t group_publish(struct ncclComm **comm_p, struct ncclComm *comm);

/* A call inside a group failed: the group will not be enqueued, and ncclGroupEnd returns `result`. Returns it too. */
ncclResult_t group_refuse(ncclResult_t result);

#endif

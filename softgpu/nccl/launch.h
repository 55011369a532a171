/*
 * launch.h - a communicator's operations as kernels on CUDA streams.
 */
#ifndef SOFTGPU_NCCL_LAUNCH_H
#define SOFTGPU_NCCL_LAUNCH_H

#include "nccl/collective.h"
#include "nccl/comm.h"
#include "nccl/point_to_point.h"

/*
 * Launches one collective on `stream`, after everything of this communicator that was launched before, on whatever
 * stream. collective->scalar is ignored: what premulsum needs comes with `premulsum`, NULL without.
 */
ncclResult_t launch_collective(struct ncclComm *comm, const struct collective *collective,
                               const struct premulsum *premulsum, CUstream stream);

/* The same for the sends and receives of a group, at most TRANSFERS_MAX. */
ncclResult_t launch_transfers(struct ncclComm *comm, const struct transfer *transfers, int count, bool pays_latency,
                              CUstream stream);

#endif

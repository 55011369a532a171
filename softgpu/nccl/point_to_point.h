/*
 * point_to_point.h - the sends and receives of one group, as they run on a stream's thread: all of them make progress
 * at the same time, those between the same two ranks in the order in which they were called.
 */
#ifndef SOFTGPU_NCCL_POINT_TO_POINT_H
#define SOFTGPU_NCCL_POINT_TO_POINT_H

#include "nccl/exchange.h"

/* One ncclSend or ncclRecv. */
struct transfer {
    void *buffer; /* only read for a send */
    size_t bytes;
    int32_t peer;
    uint16_t type; /* ncclDataType_t */
    uint16_t is_send;
};

/* The most sends and receives that one group may hold for one communicator: they are the parameters of one kernel. */
#define TRANSFERS_MAX 128

/*
 * Runs all transfers to their end. A message whose size or type is not what its receiver expects is an error that names
 * both. Errors as in collective_run(). One thread at a time.
 */
void transfers_run(struct exchange *exchange, const struct transfer *transfers, int count, bool pays_latency);

#endif

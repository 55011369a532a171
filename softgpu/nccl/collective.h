/*
 * collective.h - the collectives, as they run on a stream's thread: data move through the staging space of the segment,
 * in chunks, two at a time.
 *
 * All-reduce cuts each chunk into one piece per rank: every rank copies the others' pieces into its staging space,
 * reduces its own piece from all ranks' copies in the order of the ranks, and takes the others' results; each byte is
 * copied in once, read once and copied out once. Which rank reduces an element does not change its value (reduce.h), so
 * results are the same bits on all ranks and for every chunk size.
 *
 * Each operation begins with the comparison of its signature on all ranks: no rank moves data before all agree.
 */
#ifndef SOFTGPU_NCCL_COLLECTIVE_H
#define SOFTGPU_NCCL_COLLECTIVE_H

#include "nccl/exchange.h"

enum operation_kind {
    OPERATION_ALL_REDUCE,
    OPERATION_BROADCAST,
    OPERATION_REDUCE,
    OPERATION_ALL_GATHER,
    OPERATION_REDUCE_SCATTER,
    OPERATION_KIND_COUNT,
};

/* One collective on one rank. Buffers as in nccl.h; in place as there. */
struct collective {
    enum operation_kind kind;
    ncclDataType_t type;
    ncclRedOp_t op; /* one of NCCL's five; for premulsum ncclSum, with `scalar` */
    int root;       /* of broadcast and reduce; -1 otherwise */
    size_t count;   /* as given to NCCL: per rank for all-gather and reduce-scatter */
    const void *send;
    void *receive;
    const void *scalar; /* one element, NULL without premulsum; read when the operation runs */
    bool is_registered; /* its buffer was registered with the communicator */
    bool pays_latency;  /* by the link model */
};

/*
 * Runs one collective. Returns when this rank's part is done; on an error, of this or an earlier operation, with the
 * receive buffer in an undefined state and the error in exchange_error(). One thread at a time.
 */
void collective_run(struct exchange *exchange, const struct collective *collective);

#endif

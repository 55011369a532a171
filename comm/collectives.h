/*
 * collectives.h - one NCCL communicator, its stream, and what the engine sends through them.
 *
 * The stream is non-blocking (it takes no part in the legacy default stream's barriers) and of high priority. Every
 * function only enqueues on it, unless it says that it waits. Exactly one thread at a time may call: the engine's
 * issuer; in the same order on all ranks. The communicator is non-blocking too: a call that NCCL has not finished is
 * waited for up to the time limit.
 */
#ifndef DDPRUN_COMM_COLLECTIVES_H
#define DDPRUN_COMM_COLLECTIVES_H

#include "comm/driver.h"
#include "comm/nccl.h"
#include "comm/rendezvous.h"

#include <stddef.h>
#include <stdint.h>

struct collectives {
    const struct driver *driver;
    const struct nccl *nccl;
    ncclComm_t comm;
    CUcontext context;
    CUstream stream;
    int rank;
    int world_size;
    int timeout_s;
};

/* Memory of one gradient on this rank. */
struct bucket_member {
    CUdeviceptr address;
    size_t bytes;
};

/* A bucket ready to travel: in place where its members are contiguous in memory, else through a buffer of its own. */
struct bucket_wire {
    struct bucket_member *members; /* in the plan's order; owned */
    size_t member_count;
    ncclDataType_t type;
    size_t element_count;
    CUdeviceptr address; /* what NCCL reduces: the first member in memory, or the buffer */
    bool packed;         /* address is a buffer of `element_count` elements, owned */
};

/*
 * Creates stream and communicator in the current CUDA context. Collective; waits at most timeout_s seconds for the
 * other ranks.
 */
bool collectives_open(struct collectives *collectives, const struct driver *driver, const struct nccl *nccl,
                      struct rendezvous *rendezvous, int timeout_s, struct comm_error *error)
    __attribute__((warn_unused_result));

/* Rank 0's bytes go to all ranks. Waits until they are there. Collective. */
bool collectives_broadcast(struct collectives *collectives, CUdeviceptr address, size_t bytes, struct comm_error *error)
    __attribute__((warn_unused_result));

/* Prepares a bucket; allocates device memory if it has to be packed. bucket_wire_free() releases it, after a failure
 * too. */
bool bucket_wire_init(struct bucket_wire *wire, struct collectives *collectives, const struct bucket_member *members,
                      size_t member_count, ncclDataType_t type, size_t element_bytes, struct comm_error *error)
    __attribute__((warn_unused_result));
void bucket_wire_free(struct bucket_wire *wire, const struct driver *driver); /* an all-zero wire is none */

/* Whether the wire was made for just these members; `members` has as many as the bucket. */
bool bucket_wire_has(const struct bucket_wire *wire, const struct bucket_member *members);

/* Replaces each member by its mean over all ranks. Collective. */
bool collectives_mean(struct collectives *collectives, const struct bucket_wire *wire, struct comm_error *error)
    __attribute__((warn_unused_result));

/* send[count] of each rank to receive[rank * count] on all. Device memory. Collective. */
bool collectives_gather_words(struct collectives *collectives, CUdeviceptr send, CUdeviceptr receive, size_t count,
                              struct comm_error *error) __attribute__((warn_unused_result));

/*
 * Whether the communicator is still sound; false with NCCL's words when a peer is gone or an operation failed. Any
 * thread.
 */
bool collectives_sound(struct collectives *collectives, struct comm_error *error);

/* Leaves in order: waits for what is enqueued. Collective. */
void collectives_close(struct collectives *collectives);

#endif

/*
 * collectives.h - the job's two NCCL communicators, a stream for each, and what the engine sends through them.
 *
 * Buckets and all else go through the engine's communicator, but for what the program itself reduces (DDP_REDUCE),
 * which has a communicator of its own, opened when it is first used: buckets that leave during backward
 * leave in their own order, and a rank whose step deviates sends them later than the others do, so a call of the
 * program's would stand before a bucket on one rank and after it on another. Neither waits for the other on the
 * device. Both kernels may be resident at once, each waiting for its peer on another rank: that needs room for both,
 * which a bound on the blocks of the second gives (PROGRAM_CTAS_AT_MOST in collectives.c). The streams are non-blocking
 * (they take no part in the legacy default stream's barriers) and of high priority. Every function only enqueues,
 * unless it says that it waits. Exactly one thread at a time may call: the engine's issuer; in the same order on all
 * ranks. Communicators are blocking (nccl.h says why): the first operations
 * of each wait on the host for the other ranks, to connect, and with a dead peer may never return. Another thread looks
 * after the time limit there: collectives_in_call_us().
 */
#ifndef DDPRUN_COMM_COLLECTIVES_H
#define DDPRUN_COMM_COLLECTIVES_H

#include "comm/control.h"
#include "comm/driver.h"
#include "comm/nccl.h"
#include "comm/wire.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The one of buckets and of all else that the engine sends; and the one of what the program itself reduces. */
enum { COMMUNICATOR_ENGINE, COMMUNICATOR_PROGRAM, COMMUNICATORS };

struct communicator {
    ncclUniqueId id;
    ncclComm_t comm;
    CUstream stream;
    _Atomic int64_t called_us; /* clock_now_us() when the issuer entered the NCCL call that it is inside; 0: none */
};

/* What the user chose; the same on all ranks, which collectives_open() makes sure of. */
struct collectives_options {
    enum ddprun_reduction reduction;
    enum ddprun_compression compression;
    int timeout_s;
    const char *kernels_path; /* or NULL: there are none */
};

struct collectives {
    const struct driver *driver;
    const struct nccl *nccl;
    struct communicator communicators[COMMUNICATORS];
    _Atomic unsigned open_count;       /* of them, from the first on */
    _Atomic ncclResult_t start_result; /* of the last start of one; while it runs, of the one before */
    struct wire_setting setting;
    CUcontext context;
    CUstream stream; /* of the engine's communicator */
    int rank;
    int world_size;
    int timeout_s;
};

/*
 * Creates the engine's communicator and its stream in the current CUDA context, and loads the kernels there.
 * Collective; waits at most timeout_s seconds for the other ranks. After a failure `collectives` must live as long as
 * the process: a thread may still be inside NCCL with it.
 */
bool collectives_open(struct collectives *collectives, const struct driver *driver, const struct nccl *nccl,
                      struct control *control, const struct collectives_options *options,
                      struct comm_error *error) MUST_USE;

/* Opens the program's communicator. Collective, once; waits and fails as collectives_open(). */
bool collectives_open_program(struct collectives *collectives, struct control *control,
                              struct comm_error *error) MUST_USE;

/* `count` elements of device memory become the result of `operation` over all ranks, through that communicator and in
 * the order of its stream; for ncclAvg the mean as wire_mean() has it. Collective. */
bool collectives_reduce_program(struct collectives *collectives, CUdeviceptr address, size_t count, ncclDataType_t type,
                                ncclRedOp_t operation, struct comm_error *error) MUST_USE;

/* Whether `stream` is one of these communicators'. Any thread, once collectives are open. */
bool collectives_own_stream(const struct collectives *collectives, CUstream stream);

/* Rank 0's bytes at `from` go to all ranks, to `to`, through the engine's communicator and in the order of `stream`: to
 * its own, too, unless both are the same. Collective. */
bool collectives_send_from_zero(struct collectives *collectives, CUdeviceptr from, CUdeviceptr to, size_t bytes,
                                CUstream stream, struct comm_error *error) MUST_USE;

/* The same in one place, on that communicator's stream, and waits until they are there. */
bool collectives_broadcast(struct collectives *collectives, CUdeviceptr address, size_t bytes,
                           struct comm_error *error) MUST_USE;

/* Makes `wire` fit these members of a bucket: wire_place() on that stream. */
bool collectives_place(struct collectives *collectives, struct bucket_wire *wire, const struct bucket_member *members,
                       size_t member_count, ncclDataType_t type, struct comm_error *error) MUST_USE;

/*
 * Replaces each member by its mean, or sum, over all ranks, in the order of `stream`: the engine's, or one that is
 * captured. Collective. `weight`: of this rank's elements, as in wire_pack(); ranks may have different ones.
 */
bool collectives_reduce(struct collectives *collectives, const struct bucket_wire *wire, double weight, CUstream stream,
                        struct comm_error *error) MUST_USE;

/*
 * The same in parts, for a bucket that is packed by kernels before it is known that nothing writes its members any
 * more: first what collectives_reduce() sends, as it is when the stream comes there, with digests
 * (wire_pack_digested()), and then the reduction, collective, which leaves its result in the packed bucket; `packed` is
 * recorded between them. Members stay as they are until collectives_commit() replaces them. A bucket may be sent more
 * than once before that.
 */
bool collectives_speculate(struct collectives *collectives, const struct bucket_wire *wire, double weight,
                           CUevent packed, CUstream stream, struct comm_error *error) MUST_USE;
/* The same of a bucket that nothing writes any more: without digests, and looked at as by collectives_reduce(). */
bool collectives_reduce_packed(struct collectives *collectives, const struct bucket_wire *wire, double weight,
                               CUstream stream, struct comm_error *error) MUST_USE;
bool collectives_commit(struct collectives *collectives, const struct bucket_wire *wire, CUstream stream,
                        struct comm_error *error) MUST_USE;
/* The same, but members stay as they are where the guard forbids writing when `stream` comes there. */
bool collectives_commit_guarded(struct collectives *collectives, const struct bucket_wire *wire,
                                const struct chunk_guard *guard, CUstream stream, struct comm_error *error) MUST_USE;

/* Takes part in the reduction of such a bucket with zeros: its result is not wanted on any rank. Collective. */
bool collectives_discard(struct collectives *collectives, const struct bucket_wire *wire, CUstream stream,
                         struct comm_error *error) MUST_USE;

/* words[count], uint32_t of the device, become their sums over all ranks, in the order of `stream`. Collective. */
bool collectives_add_words(struct collectives *collectives, CUdeviceptr words, size_t count, CUstream stream,
                           struct comm_error *error) MUST_USE;

/* send[count] of each rank to receive[rank * count] on all, through the engine's communicator. Device memory.
 * Collective.
 */
bool collectives_gather_words(struct collectives *collectives, CUdeviceptr send, CUdeviceptr receive, size_t count,
                              struct comm_error *error) MUST_USE;

/*
 * Whether the communicators are still sound; false with NCCL's words when a peer is gone or an operation failed. Any
 * thread, also while the issuer is inside a call.
 */
bool collectives_sound(struct collectives *collectives, struct comm_error *error);

/* How long the issuer has been inside a call of that communicator, in microseconds; 0: it is in none. Any thread. */
int64_t collectives_in_call_us(const struct collectives *collectives, unsigned communicator);

/*
 * Leaves cleanly: waits for what is enqueued, at most timeout_s seconds. Collective. `collectives` must live as long
 * as the process.
 */
void collectives_close(struct collectives *collectives);

#endif

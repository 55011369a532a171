/*
 * collectives.c - see collectives.h.
 */
#include "comm/collectives.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/mutant.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool
cuda_ok(const struct driver *driver, CUresult result, const char *what, struct comm_error *error)
{
    return result == CUDA_SUCCESS || driver_fail(driver, result, what, error);
}

static bool
nccl_failed(const struct collectives *c, ncclComm_t comm, ncclResult_t result, const char *what,
            struct comm_error *error)
{
    const char *detail = c->nccl->ncclGetLastError_p(comm);
    return comm_fail_by(error, result == ncclRemoteError ? COMM_OTHERS : COMM_UNCLEAR, "%s: %s%s%.300s", what,
                        c->nccl->ncclGetErrorString_p(result), detail != NULL && detail[0] != '\0' ? ": " : "",
                        detail != NULL ? detail : "");
}

enum { SPIN_US = 300 };

/* Waits until NCCL has finished what it was asked for: microseconds once a communicator stands, so a sleep is last. */
static bool
settle(struct collectives *c, ncclComm_t comm, ncclResult_t result, const char *what, struct comm_error *error)
{
    int64_t begin_us = clock_now_us(), deadline_us = begin_us + (int64_t)c->timeout_s * 1000000;
    while (result == ncclInProgress) {
        ncclResult_t asked = c->nccl->ncclCommGetAsyncError_p(comm, &result);
        if (asked != ncclSuccess)
            return nccl_failed(c, comm, asked, what, error);
        if (result == ncclInProgress && clock_now_us() > deadline_us)
            return comm_fail_by(error, COMM_OTHERS, "%s: the other ranks have not come within %d s", what,
                                c->timeout_s);
        if (result == ncclInProgress && clock_now_us() - begin_us < SPIN_US)
            sched_yield();
        else if (result == ncclInProgress)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return result == ncclSuccess || nccl_failed(c, comm, result, what, error);
}

/* ---- the beginning ---- */

static bool
create_streams(struct collectives *c, struct comm_error *error)
{
    int least = 0, greatest = 0;
    if (!cuda_ok(c->driver, c->driver->cuCtxGetCurrent_p(&c->context), "cuCtxGetCurrent", error) ||
        !cuda_ok(c->driver, c->driver->cuCtxGetStreamPriorityRange_p(&least, &greatest), "cuCtxGetStreamPriorityRange",
                 error))
        return false;
    for (unsigned i = 0; i < c->communicator_count; ++i) {
        struct communicator *communicator = &c->communicators[i];
        if (!cuda_ok(c->driver,
                     c->driver->cuStreamCreateWithPriority_p(&communicator->stream, CU_STREAM_NON_BLOCKING, greatest),
                     "cuStreamCreateWithPriority", error))
            return false;
        if (i > 0 && !cuda_ok(c->driver, c->driver->cuEventCreate_p(&communicator->joined, CU_EVENT_DISABLE_TIMING),
                              "cuEventCreate", error))
            return false;
    }
    c->stream = c->communicators[0].stream;
    return true;
}

/* Without kernels, buckets can be packed all the same; converted they cannot be. */
static bool
load_kernels(struct collectives *c, const struct collectives_options *options, struct comm_error *error)
{
    struct comm_error why = {"they are not installed"};
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* some stream of the trainer may be captured */
    if (!cuda_ok(c->driver, c->driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode",
                 error))
        return false;
    bool loaded =
        options->kernels_path != NULL && kernels_load(&c->setting.kernels, c->driver, options->kernels_path, &why);
    if (!cuda_ok(c->driver, c->driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode",
                 error))
        return false;
    if (!loaded && options->kernels_path != NULL && options->compression == DDPRUN_COMPRESS_NONE && c->rank == 0)
        message_line("%s; buckets are packed by copies", why.text);
    return loaded || options->compression == DDPRUN_COMPRESS_NONE ||
           comm_fail(error,
                     "--compress needs ddprun's own kernels: %.300s; build ddprun where nvcc of CUDA 13 is, or leave "
                     "--compress out",
                     why.text);
}

/* What rank 0 shows to all: ranks that send buckets in other ways would take each other's bytes for their own. */
struct opening {
    int32_t reduction, compression, communicator_count;
    ncclUniqueId ids[DDPRUN_MOST_COMMUNICATORS];
};

static bool
share_opening(struct collectives *c, struct rendezvous *rendezvous, struct opening *opening, struct comm_error *error)
{
    struct opening mine = {.reduction = (int32_t)c->setting.reduction,
                           .compression = (int32_t)c->setting.compression,
                           .communicator_count = (int32_t)c->communicator_count};
    for (unsigned i = 0; c->rank == 0 && i < c->communicator_count; ++i) {
        ncclResult_t result = c->nccl->ncclGetUniqueId_p(&mine.ids[i]);
        if (result != ncclSuccess)
            return nccl_failed(c, NULL, result, "ncclGetUniqueId", error);
    }
    if (!rendezvous_share(rendezvous, "ddprun.nccl", c->rank == 0 ? &mine : NULL, opening, sizeof(*opening),
                          c->timeout_s, error))
        return false;
    bool same = opening->reduction == mine.reduction && opening->compression == mine.compression &&
                opening->communicator_count == mine.communicator_count;
    return same || comm_fail(error,
                             "ranks 0 and %d were started with different --reduce, --compress or "
                             "--communicators; start all with the same options",
                             c->rank);
}

bool
collectives_open(struct collectives *c, const struct driver *driver, const struct nccl *nccl,
                 struct rendezvous *rendezvous, const struct collectives_options *options, struct comm_error *error)
{
    *c = (struct collectives){.driver = driver,
                              .nccl = nccl,
                              .communicator_count = options->communicator_count,
                              .setting = {.driver = driver,
                                          .world_size = rendezvous->world_size,
                                          .reduction = options->reduction,
                                          .compression = options->compression},
                              .rank = rendezvous->rank,
                              .world_size = rendezvous->world_size,
                              .timeout_s = options->timeout_s};
    struct opening opening;
    if (!create_streams(c, error) || !load_kernels(c, options, error) || !share_opening(c, rendezvous, &opening, error))
        return false;

    for (unsigned i = 0; i < c->communicator_count; ++i) {
        ncclComm_t *comm = &c->communicators[i].comm;
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ncclResult_t result = nccl->ncclCommInitRankConfig_p(comm, c->world_size, opening.ids[i], c->rank, &config);
        if (result != ncclSuccess && result != ncclInProgress)
            return nccl_failed(c, *comm, result, "ncclCommInitRankConfig", error);
        if (!settle(c, *comm, ncclInProgress, "ncclCommInitRankConfig", error))
            return false;
    }
    return true;
}

/* ---- what travels ---- */

unsigned
collectives_communicator_of(const struct collectives *c, size_t bucket)
{
    size_t turn = bucket + (MUTANT(COMMUNICATOR_DIFFERS) && c->rank % 2 == 1);
    return (unsigned)(turn % c->communicator_count);
}

CUstream
collectives_stream_of(const struct collectives *c, size_t bucket)
{
    return c->communicators[collectives_communicator_of(c, bucket)].stream;
}

bool
collectives_own_stream(const struct collectives *c, CUstream stream)
{
    for (unsigned i = 0; i < c->communicator_count; ++i) {
        if (c->communicators[i].stream == stream)
            return true;
    }
    return false;
}

bool
collectives_send_from_zero(struct collectives *c, CUdeviceptr address, size_t bytes, CUstream stream,
                           struct comm_error *error)
{
    void *buffer = (void *)(uintptr_t)address;
    ncclComm_t comm = c->communicators[0].comm;
    ncclResult_t result = c->nccl->ncclBroadcast_p(buffer, buffer, bytes, ncclUint8, 0, comm, stream);
    return settle(c, comm, result, "ncclBroadcast", error);
}

bool
collectives_broadcast(struct collectives *c, CUdeviceptr address, size_t bytes, struct comm_error *error)
{
    return collectives_send_from_zero(c, address, bytes, c->stream, error) &&
           cuda_ok(c->driver, c->driver->cuStreamSynchronize_p(c->stream), "waiting for ncclBroadcast", error);
}

bool
collectives_place(struct collectives *c, struct bucket_wire *wire, size_t bucket, const struct bucket_member *members,
                  size_t member_count, ncclDataType_t type, struct comm_error *error)
{
    return wire_place(wire, &c->setting, members, member_count, type, collectives_stream_of(c, bucket), error);
}

bool
collectives_reduce(struct collectives *c, const struct bucket_wire *wire, size_t bucket, struct comm_error *error)
{
    return collectives_reduce_on(c, wire, bucket, collectives_stream_of(c, bucket), error);
}

bool
collectives_reduce_on(struct collectives *c, const struct bucket_wire *wire, size_t bucket, CUstream stream,
                      struct comm_error *error)
{
    ncclComm_t comm = c->communicators[collectives_communicator_of(c, bucket)].comm;
    if (!wire_pack(wire, &c->setting, stream, error))
        return false;

    void *buffer = (void *)(uintptr_t)wire->address;
    ncclResult_t result = c->nccl->ncclAllReduce_p(buffer, buffer, wire->element_count, wire->type,
                                                   wire_operation(wire, &c->setting), comm, stream);
    return settle(c, comm, result, "ncclAllReduce", error) && wire_unpack(wire, &c->setting, stream, error);
}

bool
collectives_join(struct collectives *c, struct comm_error *error)
{
    for (unsigned i = 1; i < c->communicator_count && !MUTANT(NO_JOIN); ++i) {
        const struct communicator *other = &c->communicators[i];
        if (!cuda_ok(c->driver, c->driver->cuEventRecord_p(other->joined, other->stream), "cuEventRecord", error) ||
            !cuda_ok(c->driver, c->driver->cuStreamWaitEvent_p(c->stream, other->joined, 0), "cuStreamWaitEvent",
                     error))
            return false;
    }
    return true;
}

bool
collectives_wait(struct collectives *c, struct comm_error *error)
{
    for (unsigned i = 0; i < c->communicator_count; ++i) {
        if (!cuda_ok(c->driver, c->driver->cuStreamSynchronize_p(c->communicators[i].stream),
                     "waiting for buckets in flight", error))
            return false;
    }
    return true;
}

bool
collectives_gather_words(struct collectives *c, CUdeviceptr send, CUdeviceptr receive, size_t count,
                         struct comm_error *error)
{
    ncclComm_t comm = c->communicators[0].comm;
    ncclResult_t result = c->nccl->ncclAllGather_p((const void *)(uintptr_t)send, (void *)(uintptr_t)receive, count,
                                                   ncclUint64, comm, c->stream);
    return settle(c, comm, result, "ncclAllGather", error);
}

/* ---- the end ---- */

bool
collectives_sound(struct collectives *c, struct comm_error *error)
{
    for (unsigned i = 0; i < c->communicator_count; ++i) {
        ncclResult_t state = ncclSuccess;
        ncclComm_t comm = c->communicators[i].comm;
        ncclResult_t asked = c->nccl->ncclCommGetAsyncError_p(comm, &state);
        if (asked != ncclSuccess)
            return nccl_failed(c, comm, asked, "ncclCommGetAsyncError", error);
        if (state != ncclSuccess && state != ncclInProgress)
            return nccl_failed(c, comm, state, "NCCL", error);
    }
    return true;
}

void
collectives_close(struct collectives *c)
{
    struct comm_error ignored;
    for (unsigned i = 0; i < c->communicator_count; ++i) {
        struct communicator *communicator = &c->communicators[i];
        if (communicator->comm != NULL && c->driver->cuStreamSynchronize_p(communicator->stream) == CUDA_SUCCESS &&
            settle(c, communicator->comm, c->nccl->ncclCommFinalize_p(communicator->comm), "ncclCommFinalize",
                   &ignored))
            (void)c->nccl->ncclCommDestroy_p(communicator->comm);
        communicator->comm = NULL;
    }
}

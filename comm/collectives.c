/*
 * collectives.c - see collectives.h.
 */
#include "comm/collectives.h"

#include "base/clock.h"
#include "base/mutant.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool
cuda_ok(const struct driver *driver, CUresult result, const char *what, struct comm_error *error)
{
    return result == CUDA_SUCCESS || comm_fail(error, "%s: %s", what, driver_result_name(driver, result));
}

static bool
nccl_failed(const struct collectives *c, ncclResult_t result, const char *what, struct comm_error *error)
{
    const char *detail = c->nccl->ncclGetLastError_p(c->comm);
    return comm_fail(error, "%s: %s%s%.300s", what, c->nccl->ncclGetErrorString_p(result),
                     detail != NULL && detail[0] != '\0' ? ": " : "", detail != NULL ? detail : "");
}

enum { SPIN_US = 300 };

/* Waits until NCCL has finished what it was asked for: microseconds once a communicator stands, so a sleep is last. */
static bool
settle(struct collectives *c, ncclResult_t result, const char *what, struct comm_error *error)
{
    int64_t begin_us = clock_now_us(), deadline_us = begin_us + (int64_t)c->timeout_s * 1000000;
    while (result == ncclInProgress) {
        ncclResult_t asked = c->nccl->ncclCommGetAsyncError_p(c->comm, &result);
        if (asked != ncclSuccess)
            return nccl_failed(c, asked, what, error);
        if (result == ncclInProgress && clock_now_us() > deadline_us)
            return comm_fail(error, "%s: the other ranks have not come within %d s", what, c->timeout_s);
        if (result == ncclInProgress && clock_now_us() - begin_us < SPIN_US)
            sched_yield();
        else if (result == ncclInProgress)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return result == ncclSuccess || nccl_failed(c, result, what, error);
}

static bool
create_stream(struct collectives *c, struct comm_error *error)
{
    int least = 0, greatest = 0;
    return cuda_ok(c->driver, c->driver->cuCtxGetCurrent_p(&c->context), "cuCtxGetCurrent", error) &&
           cuda_ok(c->driver, c->driver->cuCtxGetStreamPriorityRange_p(&least, &greatest),
                   "cuCtxGetStreamPriorityRange", error) &&
           cuda_ok(c->driver, c->driver->cuStreamCreateWithPriority_p(&c->stream, CU_STREAM_NON_BLOCKING, greatest),
                   "cuStreamCreateWithPriority", error);
}

bool
collectives_open(struct collectives *c, const struct driver *driver, const struct nccl *nccl,
                 struct rendezvous *rendezvous, int timeout_s, struct comm_error *error)
{
    *c = (struct collectives){.driver = driver,
                              .nccl = nccl,
                              .rank = rendezvous->rank,
                              .world_size = rendezvous->world_size,
                              .timeout_s = timeout_s};
    if (!create_stream(c, error))
        return false;

    ncclUniqueId id, mine;
    ncclResult_t result = c->rank == 0 ? nccl->ncclGetUniqueId_p(&mine) : ncclSuccess;
    if (result != ncclSuccess)
        return nccl_failed(c, result, "ncclGetUniqueId", error);
    if (!rendezvous_share(rendezvous, "ddprun.nccl", c->rank == 0 ? &mine : NULL, &id, sizeof(id), timeout_s, error))
        return false;

    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    result = nccl->ncclCommInitRankConfig_p(&c->comm, c->world_size, id, c->rank, &config);
    if (result != ncclSuccess && result != ncclInProgress)
        return nccl_failed(c, result, "ncclCommInitRankConfig", error);
    return settle(c, ncclInProgress, "ncclCommInitRankConfig", error);
}

bool
collectives_broadcast(struct collectives *c, CUdeviceptr address, size_t bytes, struct comm_error *error)
{
    void *buffer = (void *)(uintptr_t)address;
    ncclResult_t result = c->nccl->ncclBroadcast_p(buffer, buffer, bytes, ncclUint8, 0, c->comm, c->stream);
    return settle(c, result, "ncclBroadcast", error) &&
           cuda_ok(c->driver, c->driver->cuStreamSynchronize_p(c->stream), "waiting for ncclBroadcast", error);
}

/* ---- buckets ---- */

static int
compare_address(const void *a, const void *b)
{
    CUdeviceptr left = ((const struct bucket_member *)a)->address, right = ((const struct bucket_member *)b)->address;
    return left < right ? -1 : left > right;
}

/* Whether the members fill one stretch of memory; if so, *begin_p is its first byte. */
static bool
is_contiguous(const struct bucket_member *members, size_t count, CUdeviceptr *begin_p)
{
    struct bucket_member *sorted = malloc(count * sizeof(*sorted));
    if (sorted == NULL)
        return false; /* packing is always possible */
    memcpy(sorted, members, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_address);

    bool contiguous = true;
    for (size_t i = 1; i < count && contiguous; ++i)
        contiguous = sorted[i - 1].address + sorted[i - 1].bytes == sorted[i].address;
    *begin_p = sorted[0].address;
    free(sorted);
    return contiguous;
}

bool
bucket_wire_init(struct bucket_wire *wire, struct collectives *c, const struct bucket_member *members,
                 size_t member_count, ncclDataType_t type, size_t element_bytes, struct comm_error *error)
{
    size_t bytes = 0;
    for (size_t i = 0; i < member_count; ++i)
        bytes += members[i].bytes;

    *wire = (struct bucket_wire){.member_count = member_count, .type = type, .element_count = bytes / element_bytes};
    wire->members = malloc(member_count * sizeof(*members));
    if (wire->members == NULL)
        return comm_fail(error, "out of memory");
    memcpy(wire->members, members, member_count * sizeof(*members));

    wire->packed = !is_contiguous(members, member_count, &wire->address);
    if (!wire->packed)
        return true;
    CUresult result = c->driver->cuMemAlloc_p(&wire->address, bytes);
    if (result != CUDA_SUCCESS) {
        wire->packed = false;
        return comm_fail(error, "no device memory for a bucket of %zu bytes: %s; try a smaller --bucket-mb", bytes,
                         driver_result_name(c->driver, result));
    }
    return true;
}

void
bucket_wire_free(struct bucket_wire *wire, const struct driver *driver)
{
    if (wire->packed)
        (void)driver->cuMemFree_p(wire->address);
    free(wire->members);
    *wire = (struct bucket_wire){0};
}

bool
bucket_wire_has(const struct bucket_wire *wire, const struct bucket_member *members)
{
    for (size_t i = 0; i < wire->member_count; ++i) {
        if (wire->members[i].address != members[i].address || wire->members[i].bytes != members[i].bytes)
            return false;
    }
    return wire->members != NULL;
}

enum direction { PACK, UNPACK };

static bool
copy_members(struct collectives *c, const struct bucket_wire *wire, enum direction direction, struct comm_error *error)
{
    CUdeviceptr at = wire->address;
    for (size_t i = 0; i < wire->member_count; ++i) {
        const struct bucket_member *member = &wire->members[i];
        CUdeviceptr to = direction == PACK ? at : member->address, from = direction == PACK ? member->address : at;
        at += member->bytes;
        if (MUTANT(GRADIENT_LEFT_OUT) && direction == UNPACK && i == wire->member_count - 1)
            continue;
        CUresult result = c->driver->cuMemcpyDtoDAsync_p(to, from, member->bytes, c->stream);
        if (!cuda_ok(c->driver, result, direction == PACK ? "packing a bucket" : "unpacking a bucket", error))
            return false;
    }
    return true;
}

bool
collectives_mean(struct collectives *c, const struct bucket_wire *wire, struct comm_error *error)
{
    if (wire->packed && !copy_members(c, wire, PACK, error))
        return false;

    void *buffer = (void *)(uintptr_t)wire->address;
    ncclRedOp_t op = MUTANT(SUM_NOT_MEAN) ? ncclSum : ncclAvg;
    ncclResult_t result =
        c->nccl->ncclAllReduce_p(buffer, buffer, wire->element_count, wire->type, op, c->comm, c->stream);
    if (!settle(c, result, "ncclAllReduce", error))
        return false;
    return !wire->packed || copy_members(c, wire, UNPACK, error);
}

bool
collectives_gather_words(struct collectives *c, CUdeviceptr send, CUdeviceptr receive, size_t count,
                         struct comm_error *error)
{
    ncclResult_t result = c->nccl->ncclAllGather_p((const void *)(uintptr_t)send, (void *)(uintptr_t)receive, count,
                                                   ncclUint64, c->comm, c->stream);
    return settle(c, result, "ncclAllGather", error);
}

/* ---- the end ---- */

bool
collectives_sound(struct collectives *c, struct comm_error *error)
{
    ncclResult_t state = ncclSuccess;
    ncclResult_t asked = c->nccl->ncclCommGetAsyncError_p(c->comm, &state);
    if (asked != ncclSuccess)
        return nccl_failed(c, asked, "ncclCommGetAsyncError", error);
    return state == ncclSuccess || state == ncclInProgress || nccl_failed(c, state, "NCCL", error);
}

void
collectives_close(struct collectives *c)
{
    if (c->comm == NULL)
        return;
    struct comm_error ignored;
    if (c->driver->cuStreamSynchronize_p(c->stream) == CUDA_SUCCESS &&
        settle(c, c->nccl->ncclCommFinalize_p(c->comm), "ncclCommFinalize", &ignored))
        (void)c->nccl->ncclCommDestroy_p(c->comm);
    c->comm = NULL;
}

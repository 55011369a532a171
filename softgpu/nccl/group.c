/*
 * group.c - see group.h.
 */
#include "nccl/group.h"

#include "nccl/connect.h"
#include "nccl/export.h"
#include "nccl/launch.h"
#include "nccl/visit.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A call kept until the group ends. */
struct group_item {
    enum { ITEM_COLLECTIVE, ITEM_TRANSFER, ITEM_START } kind;
    struct ncclComm *comm;
    CUstream stream;
    struct collective collective;
    bool has_premulsum;
    struct premulsum premulsum; /* a copy: the operator may be destroyed before the group ends */
    struct transfer transfer;
    struct ncclComm **comm_p; /* of ITEM_START: where the user keeps the communicator */
    bool is_taken;            /* while the group is being enqueued */
    struct ncclComm *visit;   /* likewise, of the first item of each communicator: see visit.h */
};

/* The calling thread's group. */
static _Thread_local struct {
    int depth;
    ncclResult_t result; /* the first error of a call in the group */
    struct group_item *items;
    size_t count, room;
} group;

ncclResult_t
group_refuse(ncclResult_t result)
{
    if (group.depth > 0 && group.result == ncclSuccess)
        group.result = result;
    return result;
}

static ncclResult_t
add_item(const struct group_item *item)
{
    if (group.count == group.room) {
        size_t room = group.room ? 2 * group.room : 16;
        struct group_item *items = realloc(group.items, room * sizeof(*items));
        if (!items)
            return group_refuse(nccl_error(ncclSystemError, "no memory for a group of %zu calls", group.count + 1));
        group.items = items;
        group.room = room;
    }
    group.items[group.count++] = *item;
    return ncclSuccess;
}

ncclResult_t
group_publish(struct ncclComm **comm_p, struct ncclComm *comm)
{
    *comm_p = comm;
    if (!comm->is_blocking)
        return ncclInProgress;
    if (group.depth > 0)
        return add_item(&(struct group_item){.kind = ITEM_START, .comm_p = comm_p});
    return comm_finish_start(comm_p);
}

/* All communicators whose initialisation began in the group are complete. */
static ncclResult_t
finish_starts(void)
{
    ncclResult_t result = ncclSuccess;
    for (size_t i = 0; i < group.count; ++i) {
        if (group.items[i].kind != ITEM_START)
            continue;
        ncclResult_t one = comm_finish_start(group.items[i].comm_p);
        if (one != ncclSuccess)
            result = one;
    }
    return result;
}

/* Calls that are enqueued together. */
struct batch {
    struct group_item *items;
    size_t count;
};

/* Launches the transfers of one communicator as one kernel, on the stream of the first of them. */
static ncclResult_t
launch_transfers_of(const struct batch *batch, struct ncclComm *comm, size_t first, bool pays_latency)
{
    struct transfer transfers[TRANSFERS_MAX];
    int count = 0;
    CUstream stream = batch->items[first].stream;
    for (size_t i = first; i < batch->count; ++i) {
        struct group_item *item = &batch->items[i];
        if (item->kind != ITEM_TRANSFER || item->comm != comm)
            continue;
        if (item->stream != stream)
            return nccl_error(ncclInvalidUsage,
                              "the sends and receives of a communicator in one group are on different "
                              "streams: the stand-in wants one stream");
        if (count == TRANSFERS_MAX)
            return nccl_error(ncclInvalidUsage, "more than %d sends and receives of a communicator in one group",
                              TRANSFERS_MAX);
        transfers[count++] = item->transfer;
        item->is_taken = true;
    }
    return launch_transfers(comm, transfers, count, pays_latency, stream);
}

/* Enqueues what the batch holds for the communicator of its first item that has not been enqueued. */
static ncclResult_t
launch_comm(const struct batch *batch, size_t first)
{
    struct ncclComm *comm = batch->items[first].comm;
    bool pays_latency = true; /* a group pays it once */
    size_t first_transfer = batch->count;
    for (size_t i = first; i < batch->count; ++i) {
        struct group_item *item = &batch->items[i];
        if (item->comm != comm || item->kind == ITEM_START)
            continue;
        if (item->kind == ITEM_TRANSFER) {
            first_transfer = i < first_transfer ? i : first_transfer;
            continue;
        }
        item->is_taken = true;
        item->collective.pays_latency = pays_latency;
        pays_latency = false;
        ncclResult_t result =
            launch_collective(comm, &item->collective, item->has_premulsum ? &item->premulsum : NULL, item->stream);
        if (result != ncclSuccess)
            return result;
    }
    return first_transfer < batch->count ? launch_transfers_of(batch, comm, first_transfer, pays_latency) : ncclSuccess;
}

static ncclResult_t
launch_batch(void *argument)
{
    struct batch *batch = argument;
    ncclResult_t result = ncclSuccess;
    for (size_t i = 0; i < batch->count && result == ncclSuccess; ++i) {
        if (batch->items[i].kind == ITEM_COLLECTIVE)
            result = connect_begin(batch->items[i].comm, &batch->items[i].collective);
    }
    for (size_t i = 0; i < batch->count && result == ncclSuccess; ++i) {
        if (batch->items[i].kind == ITEM_COLLECTIVE)
            result = connect_finish(batch->items[i].comm);
    }
    for (size_t i = 0; i < batch->count && result == ncclSuccess; ++i) {
        if (batch->items[i].kind == ITEM_COLLECTIVE)
            result = connect_meet(batch->items[i].comm, &batch->items[i].collective);
    }
    for (size_t i = 0; i < batch->count && result == ncclSuccess; ++i) {
        if (batch->items[i].kind != ITEM_START && !batch->items[i].is_taken)
            result = launch_comm(batch, i);
    }
    return result;
}

static ncclResult_t
launch_and_free(void *argument)
{
    struct batch *batch = argument;
    ncclResult_t result = launch_batch(batch);
    free(batch->items);
    free(batch);
    return result;
}

/* The calling thread is inside all communicators of a batch while it enqueues it, or hands it to a thread. */
static void
leave_comms(const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; ++i)
        visit_end(&batch->items[i].visit);
}

/* All in one batch block, or none does; *comm_count_p becomes the number of communicators. */
static ncclResult_t
enter_comms(const struct batch *batch, int *comm_count_p, bool *is_blocking_p)
{
    int count = 0;
    for (size_t i = 0; i < batch->count; ++i) {
        struct group_item *item = &batch->items[i];
        bool is_known = item->kind == ITEM_START;
        for (size_t k = 0; k < i && !is_known; ++k)
            is_known = batch->items[k].visit == item->comm;
        if (is_known)
            continue;
        TRY(visit_begin(item->comm, "ncclGroupEnd", &item->visit));
        if (count++ > 0 && item->comm->is_blocking != *is_blocking_p)
            return nccl_error(ncclInvalidArgument, "a group has communicators that block and others that do not");
        *is_blocking_p = item->comm->is_blocking;
    }
    *comm_count_p = count;
    return ncclSuccess;
}

/* Leaves a copy of the batch to a thread. */
static ncclResult_t
launch_in_background(const struct batch *batch, int comm_count)
{
    struct batch *copy = malloc(sizeof(*copy));
    struct group_item *items = malloc(batch->count * sizeof(*items));
    struct work *work = NULL;
    if (copy && items) {
        memcpy(items, batch->items, batch->count * sizeof(*items));
        *copy = (struct batch){items, batch->count};
        work = work_start(launch_and_free, copy, comm_count);
    }
    if (!work) {
        free(items);
        free(copy);
        return nccl_error(ncclSystemError, "no thread for a call of a communicator that does not block");
    }
    for (size_t i = 0; i < batch->count; ++i) {
        if (batch->items[i].visit)
            batch->items[i].visit->work = work;
    }
    return ncclInProgress;
}

static ncclResult_t
enqueue_batch(struct batch *batch)
{
    int comm_count = 0;
    bool is_blocking = true;
    ncclResult_t result = enter_comms(batch, &comm_count, &is_blocking);
    if (result == ncclSuccess)
        result = is_blocking ? launch_batch(batch) : launch_in_background(batch, comm_count);
    leave_comms(batch);
    return result;
}

static ncclResult_t
enqueue_or_keep(struct group_item *item)
{
    if (group.depth > 0)
        return add_item(item);
    return enqueue_batch(&(struct batch){item, 1});
}

ncclResult_t
group_collective(struct ncclComm *comm, const struct collective *collective, const struct premulsum *premulsum,
                 CUstream stream)
{
    struct group_item item = {.kind = ITEM_COLLECTIVE, .comm = comm, .stream = stream, .collective = *collective};
    if (premulsum) {
        item.has_premulsum = true;
        item.premulsum = *premulsum;
    }
    return enqueue_or_keep(&item);
}

ncclResult_t
group_transfer(struct ncclComm *comm, const struct transfer *transfer, CUstream stream)
{
    struct group_item item = {.kind = ITEM_TRANSFER, .comm = comm, .stream = stream, .transfer = *transfer};
    return enqueue_or_keep(&item);
}

/* nccl.h declares these two without a prototype. */
ncclResult_t pncclGroupStart(void);
ncclResult_t pncclGroupEnd(void);

/* Forgets what the group holds. */
static void
clear_group(void)
{
    free(group.items);
    group.items = NULL;
    group.count = group.room = 0;
    group.result = ncclSuccess;
}

ncclResult_t
pncclGroupStart(void)
{
    ++group.depth;
    return ncclSuccess;
}
NCCL_EXPORT(ncclGroupStart);

ncclResult_t
pncclGroupEnd(void)
{
    if (group.depth == 0)
        return nccl_error(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group.depth > 0)
        return ncclSuccess;
    ncclResult_t result = finish_starts();
    if (result == ncclSuccess)
        result = group.result;
    if (result == ncclSuccess && group.count > 0)
        result = enqueue_batch(&(struct batch){group.items, group.count});
    clear_group();
    return result;
}
NCCL_EXPORT(ncclGroupEnd);

/* What the link model says that an item takes, in microseconds. */
static double
estimate_us(const struct group_item *item)
{
    const struct collective *what = &item->collective;
    bool gathers = what->kind == OPERATION_ALL_GATHER || what->kind == OPERATION_REDUCE_SCATTER;
    size_t bytes = item->kind == ITEM_TRANSFER
                       ? item->transfer.bytes
                       : what->count * type_bytes(what->type) * (gathers ? (size_t)item->comm->rank_count : 1);
    return (double)link_model_ns(&item->comm->exchange.link, bytes, true) / 1e3;
}

/* Ends the group without doing what it holds, and tells how long that would have taken. */
ncclResult_t
pncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    static const ncclSimInfo_t initial = NCCL_SIM_INFO_INITIALIZER;
    if (group.depth == 0)
        return nccl_error(ncclInvalidUsage, "ncclGroupSimulateEnd without ncclGroupStart");
    if (info && (info->magic != initial.magic || info->size < offsetof(ncclSimInfo_t, estimatedTime) + sizeof(float)))
        return nccl_error(ncclInvalidArgument, "the simulation's information was not made with "
                                               "NCCL_SIM_INFO_INITIALIZER");
    if (--group.depth > 0)
        return ncclSuccess;
    ncclResult_t result = finish_starts(); /* communicators are not simulated */
    if (result == ncclSuccess)
        result = group.result;
    double estimate = 0;
    for (size_t i = 0; i < group.count && result == ncclSuccess; ++i) {
        if (group.items[i].kind != ITEM_START)
            estimate += estimate_us(&group.items[i]);
    }
    if (result == ncclSuccess && info)
        info->estimatedTime = (float)estimate;
    clear_group();
    return result;
}
NCCL_EXPORT(ncclGroupSimulateEnd);

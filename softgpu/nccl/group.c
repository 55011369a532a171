/*
 * group.c - see group.h.
 */
#include "nccl/group.h"

#include "nccl/export.h"
#include "nccl/launch.h"

#include <stddef.h>
#include <stdlib.h>

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
};

/* The calling thread's group. */
static _Thread_local struct {
    int depth;
    ncclResult_t result; /* the first error of a call in the group */
    struct group_item *items;
    size_t count, room;
} group;

bool
group_is_open(void)
{
    return group.depth > 0;
}

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
group_collective(struct ncclComm *comm, const struct collective *collective, const struct premulsum *premulsum,
                 CUstream stream)
{
    if (group.depth == 0)
        return launch_collective(comm, collective, premulsum, stream);
    struct group_item item = {.kind = ITEM_COLLECTIVE, .comm = comm, .stream = stream, .collective = *collective};
    if (premulsum) {
        item.has_premulsum = true;
        item.premulsum = *premulsum;
    }
    return add_item(&item);
}

ncclResult_t
group_transfer(struct ncclComm *comm, const struct transfer *transfer, CUstream stream)
{
    if (group.depth == 0)
        return launch_transfers(comm, transfer, 1, true, stream);
    struct group_item item = {.kind = ITEM_TRANSFER, .comm = comm, .stream = stream, .transfer = *transfer};
    return add_item(&item);
}

ncclResult_t
group_add_start(struct ncclComm **comm_p)
{
    struct group_item item = {.kind = ITEM_START, .comm_p = comm_p};
    return add_item(&item);
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

/* Launches the transfers of one communicator as one kernel, on the stream of the first of them. */
static ncclResult_t
launch_transfers_of(struct ncclComm *comm, size_t first, bool pays_latency)
{
    struct transfer transfers[TRANSFERS_MAX];
    int count = 0;
    CUstream stream = group.items[first].stream;
    for (size_t i = first; i < group.count; ++i) {
        struct group_item *item = &group.items[i];
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

/* Enqueues what the group holds for the communicator of its first item that has not been enqueued. */
static ncclResult_t
launch_comm(size_t first)
{
    struct ncclComm *comm = group.items[first].comm;
    bool pays_latency = true; /* a group pays it once */
    size_t first_transfer = group.count;
    for (size_t i = first; i < group.count; ++i) {
        struct group_item *item = &group.items[i];
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
    return first_transfer < group.count ? launch_transfers_of(comm, first_transfer, pays_latency) : ncclSuccess;
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
    for (size_t i = 0; i < group.count && result == ncclSuccess; ++i) {
        if (group.items[i].kind != ITEM_START && !group.items[i].is_taken)
            result = launch_comm(i);
    }
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

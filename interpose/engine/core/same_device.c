/*
 * same_device.c - before NCCL starts: does each rank have a GPU of its own?
 *
 * NCCL refuses two ranks on one GPU, and its message names no cause. Since 2.30 it advises to allow that, and ranks
 * would take turns. A script that sets CUDA_VISIBLE_DEVICES is the usual cause.
 */
#include "interpose/engine/core/core.h"

/* What a rank shows of its device. */
struct shown {
    CUuuid uuid; /* of all GPUs, or of the part of one (MIG) */
    bool is_own; /* it is known, and no other rank may have it */
    char bus_id[16];
};

static struct shown
show_device(void)
{
    const struct driver *driver = &engine_state.driver;
    struct shown mine = {.is_own = false};
    CUdevice device;
    mine.is_own = engine_state.options.own_device && driver->cuCtxGetDevice_p(&device) == CUDA_SUCCESS &&
                  driver->cuDeviceGetUuid_p(&mine.uuid, device) == CUDA_SUCCESS &&
                  driver->cuDeviceGetPCIBusId_p(mine.bus_id, sizeof(mine.bus_id), device) == CUDA_SUCCESS;
    return mine;
}

static const struct shown *
shown_by(const struct control_messages *all, int rank)
{
    return all->bytes[rank] == sizeof(struct shown) ? all->messages[rank] : NULL;
}

/* The first rank below `rank` that has the same device; -1: none. */
static int
find_other(const struct control_messages *all, int rank)
{
    const struct shown *mine = shown_by(all, rank);
    for (int other = 0; other < rank && mine != NULL && mine->is_own; ++other) {
        const struct shown *theirs = shown_by(all, other);
        if (theirs != NULL && theirs->is_own && memcmp(&theirs->uuid, &mine->uuid, sizeof(mine->uuid)) == 0)
            return other;
    }
    return -1;
}

void
device_refuse_shared(void)
{
    struct control_messages all;
    const struct shown mine = show_device();
    exchange("the start of NCCL: devices", &mine, sizeof(mine), &all);
    for (int rank = 1; rank < all.count; ++rank) {
        int other = find_other(&all, rank);
        if (other >= 0) /* the same on all ranks */
            stop_job("ranks %d and %d use the same GPU, %.16s, which NCCL refuses; does a script or the program set "
                     "CUDA_VISIBLE_DEVICES, or call cudaSetDevice? ddprun gives each rank one GPU; --share-gpu lets "
                     "them share",
                     other, rank, shown_by(&all, rank)->bus_id);
    }
    control_free_messages(&all);
}

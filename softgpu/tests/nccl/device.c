/* device.c - see device.h. */
#include "device.h"

#include <stdio.h>
#include <time.h>

void
device_start(void)
{
    CUcontext context;
    EXPECT_CUDA(cuInit(0));
    EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT_CUDA(cuCtxSetCurrent(context));
}

float *
device_floats(size_t count, float value)
{
    CUdeviceptr device;
    EXPECT_CUDA(cuMemAlloc(&device, (count ? count : 1) * sizeof(float)));
    unsigned bits;
    _Static_assert(sizeof(bits) == sizeof(value), "a float has 32 bits");
    __builtin_memcpy(&bits, &value, sizeof(bits));
    EXPECT_CUDA(cuMemsetD32(device, bits, count ? count : 1));
    EXPECT_CUDA(cuCtxSynchronize());
    return (float *)device;
}

void
expect_all(const float *device, size_t count, float value)
{
    float *host = malloc(count * sizeof(*host));
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_CUDA(cuMemcpyDtoH(host, (CUdeviceptr)device, count * sizeof(float)));
    for (size_t i = 0; i < count; ++i)
        EXPECT(host[i] == value);
    free(host);
}

CUstream
device_stream(void)
{
    CUstream stream;
    EXPECT_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

ncclUniqueId
device_share_id(int rank, struct ranks_shared *shared, int which)
{
    device_start();
    if (rank == 0) {
        EXPECT_NCCL(ncclGetUniqueId(&shared->ids[which]), ncclSuccess);
        atomic_store(&shared->has_id, which + 1);
    }
    ranks_await(&shared->has_id, which + 1);
    return shared->ids[which];
}

ncclComm_t
device_comm(int rank, int rank_count, struct ranks_shared *shared, int which)
{
    ncclComm_t comm;
    ncclResult_t result = ncclCommInitRank(&comm, rank_count, device_share_id(rank, shared, which), rank);
    if (result != ncclSuccess)
        fprintf(stderr, "rank %d: %s\n", rank, ncclGetLastError(NULL));
    EXPECT_NCCL(result, ncclSuccess);
    return comm;
}

ncclComm_t
device_begin_comm(int rank, int rank_count, struct ranks_shared *shared, int which)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;
    config.blocking = 0;
    EXPECT_NCCL(ncclCommInitRankConfig(&comm, rank_count, device_share_id(rank, shared, which), rank, &config),
                ncclInProgress);
    return comm;
}

ncclResult_t
device_sum(float *values, size_t count, ncclComm_t comm, CUstream stream)
{
    return ncclAllReduce(values, values, count, ncclFloat, ncclSum, comm, stream);
}

void
device_connect(ncclComm_t comm)
{
    static const size_t counts[] = {1, 1 << 16, 1 << 19}; /* one for each algorithm of an all-reduce */
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        float *values = device_floats(counts[i], 1);
        EXPECT_NCCL(device_sum(values, counts[i], comm, NULL), ncclSuccess);
        EXPECT_CUDA(cuStreamSynchronize(NULL));
    }
}

static ncclResult_t
await(ncclComm_t comm, ncclResult_t undecided)
{
    for (int i = 0; i < RANKS_DEADLINE_S * 1000; ++i) {
        ncclResult_t error;
        EXPECT_NCCL(ncclCommGetAsyncError(comm, &error), ncclSuccess);
        if (error != undecided && error != ncclInProgress)
            return error;
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    ranks_fail(__FILE__, __LINE__, "the communicator reached a state in time");
}

ncclResult_t
device_await_error(ncclComm_t comm)
{
    return await(comm, ncclSuccess);
}

ncclResult_t
device_await_ready(ncclComm_t comm)
{
    return await(comm, ncclInProgress);
}

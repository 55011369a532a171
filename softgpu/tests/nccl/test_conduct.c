/*
 * test_conduct.c - what this NCCL does as NVIDIA's does it, where variables ask for it (nccl/conduct.h), and the driver
 * of an earlier CUDA. Each rank is a process, and sets its own variables.
 */
#include "device.h"

#include "tests/lib/test.h"

#include <softgpu/image.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 5000, MIB = 1 << 20 };

TEST_GROUP(conduct, .timeout_s = 100);

/* The ranks' next sum, which they are connected for. If ranks meet, rank 0's call has not returned before rank 1, which
 * is late, has come; else it returns while rank 1 waits for that. */
static void
sum_again(int rank, struct ranks_shared *shared, float *memory, ncclComm_t comm, CUstream stream, bool meets)
{
    _Atomic int *has_come = &shared->flags[1], *has_returned = &shared->flags[2];
    ranks_meet(&shared->flags[0], 2);
    if (rank == 1 && meets)
        usleep(50000);
    if (rank == 1 && !meets)
        ranks_await(has_returned, 1);
    if (rank == 1)
        atomic_store(has_come, 1);
    EXPECT_NCCL(ncclAllReduce(memory, memory, COUNT, ncclFloat, ncclSum, comm, stream), ncclSuccess);
    if (rank == 0)
        EXPECT(!meets || atomic_load(has_come) == 1);
    atomic_store(has_returned, 1);
    expect_all(memory, COUNT, 4.0f);
}

static void
expect_meeting(int rank, struct ranks_shared *shared, bool registers, bool meets)
{
    ncclComm_t comm = device_comm(rank, 2, shared, 0);
    CUstream stream = device_stream();
    float *memory = device_floats(COUNT, 1.0f);
    void *handle = NULL;
    if (registers)
        EXPECT_NCCL(ncclCommRegister(comm, memory, COUNT * sizeof(float), &handle), ncclSuccess);
    EXPECT_NCCL(device_sum(memory, COUNT, comm, stream), ncclSuccess);
    expect_all(memory, COUNT, 2.0f);
    sum_again(rank, shared, memory, comm, stream, meets);
    if (registers)
        EXPECT_NCCL(ncclCommDeregister(comm, handle), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
}

RANKS_TEST(each_all_reduce_meets_as_of_nccl_2_23, 2, 0)
{
    int version;
    setenv("SOFTGPU_NCCL_MEETS", "all", 1);
    EXPECT_NCCL(ncclGetVersion(&version), ncclSuccess);
    EXPECT(version == NCCL_VERSION(2, 23, 4));
    expect_meeting(rank, shared, false, true);
}

RANKS_TEST(without_nvls_none_meets, 2, 0)
{
    setenv("SOFTGPU_NCCL_MEETS", "all", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    expect_meeting(rank, shared, false, false);
}

RANKS_TEST(an_all_reduce_of_registered_memory_meets, 2, 0)
{
    int version;
    setenv("SOFTGPU_NCCL_MEETS", "registered", 1);
    EXPECT_NCCL(ncclGetVersion(&version), ncclSuccess);
    EXPECT(version == NCCL_VERSION_CODE);
    expect_meeting(rank, shared, true, true);
}

RANKS_TEST(one_of_other_memory_does_not, 2, 0)
{
    setenv("SOFTGPU_NCCL_MEETS", "registered", 1);
    expect_meeting(rank, shared, false, false);
}

RANKS_TEST(nothing_is_registered_if_the_user_says_so, 2, 0)
{
    setenv("SOFTGPU_NCCL_MEETS", "registered", 1);
    setenv("NCCL_LOCAL_REGISTER", "0", 1);
    expect_meeting(rank, shared, true, false);
}

/* An algorithm connects at its first use: rank 0's first small sum waits, though the ranks are connected for others. */
RANKS_TEST(each_algorithm_connects_by_itself, 2, 0)
{
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    CUstream stream = device_stream();
    float *memory = device_floats(COUNT, 1.0f);
    EXPECT_NCCL(device_sum(memory, COUNT, comm, stream), ncclSuccess);
    expect_all(memory, COUNT, 2.0f);
    ranks_meet(&shared->flags[0], n);
    if (rank == 1) {
        usleep(50000);
        atomic_store(&shared->flags[1], 1);
    }
    EXPECT_NCCL(device_sum(memory, 10, comm, stream), ncclSuccess);
    EXPECT(atomic_load(&shared->flags[1]) == 1);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
}

RANKS_TEST(all_connect_at_the_start_if_told_so, 2, 0)
{
    setenv("NCCL_RUNTIME_CONNECT", "0", 1);
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    CUstream stream = device_stream();
    float *memory = device_floats(COUNT, 1.0f);
    ranks_meet(&shared->flags[0], n);
    if (rank == 1)
        ranks_await(&shared->flags[1], 1); /* until rank 0's first sum has returned */
    EXPECT_NCCL(device_sum(memory, 10, comm, stream), ncclSuccess);
    atomic_store(&shared->flags[1], 1);
    expect_all(memory, 10, 2.0f);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
}

/* ---- memory ---- */

static size_t
free_memory(void)
{
    size_t available, total;
    EXPECT_CUDA(cuMemGetInfo(&available, &total));
    return available;
}

static void
expect_memory_taken(int rank, struct ranks_shared *shared, size_t bytes)
{
    device_start();
    size_t before = free_memory();
    ncclComm_t comm = device_comm(rank, 2, shared, 0);
    EXPECT(before - free_memory() == bytes);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
    EXPECT(free_memory() == before);
}

RANKS_TEST(a_communicator_takes_memory, 2, 0)
{
    setenv("SOFTGPU_NCCL_TAKES", "30", 1);
    expect_memory_taken(rank, shared, (size_t)30 * MIB);
}

RANKS_TEST(all_connections_take_more, 2, 0)
{
    setenv("SOFTGPU_NCCL_TAKES", "30", 1);
    setenv("NCCL_RUNTIME_CONNECT", "0", 1);
    expect_memory_taken(rank, shared, (size_t)60 * MIB);
}

RANKS_TEST(without_memory_initialisation_fails, 1, 0)
{
    ncclComm_t comm;
    setenv("SOFTGPU_NCCL_TAKES", "30", 1);
    setenv("SOFTGPU_MEMORY_BYTES", "20000000", 1);
    EXPECT_NCCL(ncclCommInitRank(&comm, 1, device_share_id(rank, shared, 0), 0), ncclUnhandledCudaError);
    EXPECT(strstr(ncclGetLastError(NULL), "CUDA_ERROR_OUT_OF_MEMORY") != NULL);
}

/* ---- calls of the runtime ---- */

RANKS_TEST(it_works_with_calls_of_its_own, 2, 0)
{
    setenv("SOFTGPU_NCCL_CALLS", "1", 1);
    ncclComm_t comm = device_comm(rank, n, shared, 0);
    CUstream stream = device_stream();
    float *memory = device_floats(COUNT, 1.0f);
    EXPECT_NCCL(device_sum(memory, COUNT, comm, stream), ncclSuccess);
    expect_all(memory, COUNT, 2.0f);
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess);
}

RANKS_TEST(malformed_values_are_refused, 1, 0)
{
    static const char *const variables[] = {"SOFTGPU_NCCL_CALLS", "SOFTGPU_NCCL_MEETS", "SOFTGPU_NCCL_TAKES"};
    ncclUniqueId id = device_share_id(rank, shared, 0);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); ++i) {
        ncclComm_t comm;
        setenv(variables[i], "some", 1);
        EXPECT_NCCL(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidArgument);
        EXPECT(strstr(ncclGetLastError(NULL), variables[i]) != NULL);
        unsetenv(variables[i]);
    }
}

/* ---- the driver ---- */

static void
nothing(const struct softgpu_launch *launch)
{
    (void)launch;
}

static const struct softgpu_image image = {.magic = SOFTGPU_IMAGE_MAGIC,
                                           .version = SOFTGPU_IMAGE_VERSION,
                                           .flags = SOFTGPU_IMAGE_WHOLE_GRID,
                                           .name = "nothing",
                                           .run = nothing,
                                           .max_threads_per_block = 1024};

static void
expect_driver(const char *said, int version, CUresult loads)
{
    int answer;
    CUmodule module;
    CUlibrary library;
    if (said != NULL)
        setenv("SOFTGPU_DRIVER", said, 1);
    device_start();
    EXPECT_CUDA(cuDriverGetVersion(&answer));
    EXPECT(answer == version);
    EXPECT(cuModuleLoadData(&module, &image) == loads);
    EXPECT_CUDA(cuLibraryLoadData(&library, &image, NULL, NULL, 0, NULL, NULL, 0));
}

RANKS_TEST(a_driver_for_cuda_12_loads_nothing_of_cuda_13, 1, 0)
{
    expect_driver("12040", 12040, CUDA_ERROR_NO_BINARY_FOR_GPU);
}

RANKS_TEST(the_driver_loads_its_own, 1, 0)
{
    expect_driver(NULL, 13000, CUDA_SUCCESS);
}

/*
 * device.h - for the ranks of the tests: a CUDA context, device memory and communicators by the public interfaces. What
 * is not expected to fail ends the rank if it does.
 */
#ifndef TESTS_SOFTGPU_NCCL_DEVICE_H
#define TESTS_SOFTGPU_NCCL_DEVICE_H

#include "ranks.h"

#include <cuda.h>
#include <nccl.h>
#include <stddef.h>

/* Makes the primary context of device 0 current. */
void device_start(void);

/* Device memory with `count` floats of one value. */
float *device_floats(size_t count, float value);

/* Waits for all streams. All of the floats have the value, or the rank ends. */
void expect_all(const float *device, size_t count, float value);

CUstream device_stream(void);

/* As device_start(); then rank 0 makes unique id number `which`, for which the others wait. */
ncclUniqueId device_share_id(int rank, struct ranks_shared *shared, int which);

/* Joins communicator number `which` of the test. */
ncclComm_t device_comm(int rank, int rank_count, struct ranks_shared *shared, int which);

/* Begins to join it, as a communicator that does not block, which is in progress. */
ncclComm_t device_begin_comm(int rank, int rank_count, struct ranks_shared *shared, int which);

/* An all-reduce of floats in place, by sums. */
ncclResult_t device_sum(float *values, size_t count, ncclComm_t comm, CUstream stream);

/* The first collectives of a communicator, which connect its ranks: later ones do not wait on the host. */
void device_connect(ncclComm_t comm);

/* Polls ncclCommGetAsyncError until it is neither success (unless success is wanted) nor in progress; returns it. */
ncclResult_t device_await_error(ncclComm_t comm);
ncclResult_t device_await_ready(ncclComm_t comm);

#define EXPECT_NCCL(call, result) EXPECT((call) == (result))
#define EXPECT_CUDA(call)         EXPECT((call) == CUDA_SUCCESS)

/* A RANKS_TEST or RANKS_LOOP_TEST whose ranks have a communicator `comm`, destroyed after it, and a `stream`. */
#define COMM_TEST(name, ranks, die) \
    COMM_BODY_(name);               \
    RANKS_TEST(name, ranks, die)    \
    {                               \
        RUN_WITH_COMM_(name);       \
    }                               \
    COMM_BODY_(name)
#define COMM_LOOP_TEST(name, first, last, die) \
    COMM_BODY_(name);                          \
    RANKS_LOOP_TEST(name, first, last, die)    \
    {                                          \
        RUN_WITH_COMM_(name);                  \
    }                                          \
    COMM_BODY_(name)
#define RUN_WITH_COMM_(name)                             \
    ncclComm_t comm = device_comm(rank, n, shared, 0);   \
    name##_body(comm, device_stream(), rank, n, shared); \
    EXPECT_NCCL(ncclCommDestroy(comm), ncclSuccess)
#define COMM_BODY_(name)                                                                                      \
    static void name##_body(ncclComm_t comm __attribute__((unused)), CUstream stream __attribute__((unused)), \
                            int rank __attribute__((unused)), int n __attribute__((unused)),                  \
                            struct ranks_shared *shared __attribute__((unused)))

#endif

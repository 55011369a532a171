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

/* Copies floats back, without waiting for anything. */
void device_read_floats(float *destination, const float *device, size_t count);

/* All of them have the value, or the rank ends. */
void expect_all(const float *device, size_t count, float value);

void device_free(void *device);

CUstream device_stream(void);

/* As device_start(); then rank 0 makes unique id number `which`, for which the others wait. */
ncclUniqueId device_share_id(int rank, struct ranks_shared *shared, int which);

/* Joins communicator number `which` of the test. */
ncclComm_t device_comm(int rank, int rank_count, struct ranks_shared *shared, int which);

/* The first collective of a communicator, which connects its ranks: later ones do not wait on the host. */
void device_connect(ncclComm_t comm);

/* Polls ncclCommGetAsyncError until it is neither success (unless success is wanted) nor in progress; returns it. */
ncclResult_t device_await_error(ncclComm_t comm);
ncclResult_t device_await_ready(ncclComm_t comm);

#define EXPECT_NCCL(call, result) EXPECT((call) == (result))
#define EXPECT_CUDA(call)         EXPECT((call) == CUDA_SUCCESS)

#endif

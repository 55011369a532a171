/*
 * connect.h - where ranks of a communicator wait for each other on the host.
 *
 * The first collective of each algorithm connects the ranks, as in NCCL since 2.22 (NCCL_RUNTIME_CONNECT), and
 * initialisation does not. A broadcast, a gather and an all-reduce of up to 1 MiB go by a ring, an all-reduce of up to
 * 16 KiB by a tree, and a larger one by NVLS. Connecting takes the latency of the link model, on the host. Then the
 * rank waits there until all others have come as far. With NCCL_RUNTIME_CONNECT=0 initialisation connects all.
 *
 * If one of them cannot come any more, the error shows in ncclCommGetAsyncError, and the wait ends when this rank gives
 * the communicator up: a call of a blocking communicator does not return before.
 */
#ifndef SOFTGPU_NCCL_CONNECT_H
#define SOFTGPU_NCCL_CONNECT_H

#include "nccl/collective.h"
#include "nccl/comm.h"

/* The others need not wait for this rank any more. This call and the next come from one thread at a time; the first for
 * all collectives of a group before the second for any. */
ncclResult_t connect_begin(struct ncclComm *comm, const struct collective *what);

/* Waits for the others. On an error this rank has given up. */
ncclResult_t connect_finish(struct ncclComm *comm);

/* SOFTGPU_NCCL_MEETS: waits until all ranks are in the same call. By the same thread, after connect_finish(). */
ncclResult_t connect_meet(struct ncclComm *comm, const struct collective *what);

#endif

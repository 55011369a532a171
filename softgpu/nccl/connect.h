/*
 * connect.h - the connections between the ranks of a communicator, which its first collective makes, as in NCCL since
 * 2.22 (NCCL_RUNTIME_CONNECT): initialisation does not.
 *
 * That takes the latency of the link model, on the host. Then the rank waits there until all others have come as far.
 * If one of them cannot come any more, the error shows in ncclCommGetAsyncError, and the wait ends when this rank gives
 * the communicator up: a call of a blocking communicator does not return before.
 */
#ifndef SOFTGPU_NCCL_CONNECT_H
#define SOFTGPU_NCCL_CONNECT_H

#include "nccl/comm.h"

/* The others need not wait for this rank any more. Both calls come from one thread at a time; the first for all
 * communicators of a group before the second for any. */
void connect_begin(struct ncclComm *comm);

/* Waits for the others. On an error this rank has given up. */
ncclResult_t connect_finish(struct ncclComm *comm);

#endif

/*
 * visit.h - one thread at a time is inside the library with a communicator.
 *
 * NCCL documents that (user guide, "Thread Safety") and does not check it: two threads in one communicator at once are
 * a race there, which may show as anything. Here the second call gets an error that names both threads and both calls,
 * and the communicator is of no use from then on. Exempt are ncclCommAbort, ncclGetLastError, the questions about rank
 * and size, and ncclCommGetAsyncError of a blocking communicator, which reads one word; of a non-blocking one it ends
 * the thread of the last call.
 */
#ifndef SOFTGPU_NCCL_VISIT_H
#define SOFTGPU_NCCL_VISIT_H

#include "nccl/comm.h"

/* A variable that ends the visit with its scope. */
#define COMM_VISIT(name) __attribute__((cleanup(visit_end))) struct ncclComm *name = NULL

/*
 * comm_check(), and the calling thread is inside `call` (static storage of this library) with the communicator until
 * visit_end(). It may be inside already. *visit_p is set on success only.
 */
ncclResult_t visit_begin(struct ncclComm *comm, const char *call, struct ncclComm **visit_p);

/* The same with comm_check_ready(). */
ncclResult_t visit_begin_ready(struct ncclComm *comm, const char *call, struct ncclComm **visit_p);

/* Nothing to do for NULL in *visit_p. */
void visit_end(struct ncclComm **visit_p);

/* Waits until no other thread is inside. */
void visit_wait_for_others(const struct ncclComm *comm);

#endif

/*
 * conduct.h - what NVIDIA's NCCL does on its machine besides moving data, and this one does only where variables of
 * the environment ask for it: calls of the runtime, meetings of ranks on the host, device memory of its own.
 *
 * SOFTGPU_NCCL_CALLS=1: initialisation, and each connection, allocate, copy, free, and make and destroy a stream, in a
 * thread of NCCL's and through the shared runtime, as an NCCL does that is linked with it.
 * SOFTGPU_NCCL_MEETS=registered|all: an all-reduce with NVLS waits on the host until all ranks are in the same call.
 * SOFTGPU_NCCL_TAKES=MiB: device memory that a communicator takes, twice as much with NCCL_RUNTIME_CONNECT=0.
 * SOFTGPU_NCCL_CORRUPTS=1: a bit of each sum of more than 64 KiB is wrong, the same on all ranks, as where peers write
 * to each other through an IOMMU.
 *
 * Read by comm.c when a communicator starts, which keeps the answer; asked by connect.c; the version by comm_api.c.
 */
#ifndef SOFTGPU_NCCL_CONDUCT_H
#define SOFTGPU_NCCL_CONDUCT_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

enum conduct_meets {
    MEETS_NEVER,
    MEETS_REGISTERED, /* for registered memory: NCCL 2.24 to 2.30 */
    MEETS_ALL,        /* in each call: NCCL 2.19 to 2.23 */
};

struct conduct {
    bool calls, corrupts;
    enum conduct_meets meets;
    size_t takes_bytes;
    bool connects_at_start; /* NCCL_RUNTIME_CONNECT=0 */
};

/* Reads the variables. A malformed one is an error, and *conduct_p is untouched. */
ncclResult_t conduct_read(struct conduct *conduct_p);

/* The version that ncclGetVersion answers: one that meets as SOFTGPU_NCCL_MEETS says. */
int conduct_version(void);

/* Whether ncclCommRegister registers memory: NCCL_LOCAL_REGISTER=0 turns that off. */
bool conduct_registers(void);

/* The calls of the runtime, in the calling thread, whose context they are for. */
ncclResult_t conduct_call(void);

/* The same in a thread of its own, with `context`; waits for it. */
ncclResult_t conduct_call_in_thread(void *context);

#endif

/*
 * operations.c - the exported calls that move data, and those that prepare them (operators, memory): arguments are
 * checked here, group.c enqueues.
 */
#include "nccl/export.h"
#include "nccl/group.h"
#include "nccl/visit.h"

#include <stdlib.h>
#include <string.h>

/* No buffer is larger than the address space of a process; it keeps numbers of bytes and chunks from overflowing. */
#define BUFFER_BYTES_MAX ((size_t)1 << 47)

static CUstream
driver_stream(cudaStream_t stream)
{
    return (CUstream)
        stream; /* one type under two names; 0 is the legacy default stream, 1 and 2 the two by their own names */
}

static ncclResult_t
check_type(ncclDataType_t type, const char *call)
{
    if (type_bytes(type) > 0)
        return ncclSuccess;
    if ((unsigned)type < ncclNumTypes)
        return nccl_error(ncclInvalidArgument, "%s: the stand-in does not support %s", call, type_name(type));
    return nccl_error(ncclInvalidArgument, "%s: %d is not a data type", call, (int)type);
}

static ncclResult_t
check_rank(const struct ncclComm *comm, int rank, const char *what, const char *call)
{
    if (rank >= 0 && rank < comm->rank_count)
        return ncclSuccess;
    return nccl_error(ncclInvalidArgument, "%s: %s %d is not one of %d ranks", call, what, rank, comm->rank_count);
}

/* Finds what `op` means: one of NCCL's five, or an operator that this communicator made. */
static ncclResult_t
resolve_op(const struct ncclComm *comm, ncclDataType_t type, ncclRedOp_t op, const struct premulsum **premulsum_p,
           const char *call)
{
    *premulsum_p = NULL;
    if ((unsigned)op < ncclNumOps)
        return ncclSuccess;
    unsigned index = (unsigned)op - ncclNumOps;
    if (index >= PREMULSUM_MAX || !comm->premulsums[index].is_used)
        return nccl_error(ncclInvalidArgument, "%s: %d is not an operator of this communicator", call, (int)op);
    if (comm->premulsums[index].type != type)
        return nccl_error(ncclInvalidArgument, "%s: the operator was made for %s, the call is for %s", call,
                          type_name(comm->premulsums[index].type), type_name(type));
    *premulsum_p = &comm->premulsums[index];
    return ncclSuccess;
}

/* NVIDIA's NCCL: if one rank gives registered memory, all ranks must; the comparison of signatures holds them to it. */
static bool
is_registered(const struct ncclComm *comm, const void *buffer, size_t bytes)
{
    const struct registration *one = comm->registrations;
    while (one && ((const char *)buffer < one->buffer || (const char *)buffer + bytes > one->buffer + one->bytes))
        one = one->next;
    return one != NULL;
}

/* The checks that all collectives share, then into the group or onto the stream. */
static ncclResult_t
enqueue(struct ncclComm *comm, struct collective *collective, cudaStream_t stream, const char *call)
{
    const struct premulsum *premulsum = NULL;
    COMM_VISIT(visit);
    ncclResult_t result = visit_begin_ready(comm, call, &visit);
    if (result == ncclSuccess)
        result = check_type(collective->type, call);
    bool has_root = collective->kind == OPERATION_BROADCAST || collective->kind == OPERATION_REDUCE;
    if (result == ncclSuccess && has_root)
        result = check_rank(comm, collective->root, "root", call);
    bool reduces = collective->kind != OPERATION_BROADCAST && collective->kind != OPERATION_ALL_GATHER;
    if (result == ncclSuccess && reduces)
        result = resolve_op(comm, collective->type, collective->op, &premulsum, call);
    if (result != ncclSuccess)
        return group_refuse(result);

    bool is_root = !has_root || comm->rank == collective->root;
    bool sends = collective->kind != OPERATION_BROADCAST || is_root;
    bool receives = collective->kind != OPERATION_REDUCE || is_root;
    if (collective->count > 0 && ((sends && !collective->send) || (receives && !collective->receive)))
        return group_refuse(nccl_error(ncclInvalidArgument, "%s: a buffer is NULL", call));
    if (collective->count > BUFFER_BYTES_MAX / 8 / (size_t)comm->rank_count)
        return group_refuse(nccl_error(ncclInvalidArgument, "%s: a count of %zu", call, collective->count));
    if (premulsum)
        collective->op = ncclSum;
    if (collective->kind == OPERATION_ALL_REDUCE)
        collective->is_registered =
            is_registered(comm, collective->receive, collective->count * type_bytes(collective->type));
    collective->pays_latency = true;
    return group_collective(comm, collective, premulsum, driver_stream(stream));
}

#define OPERANDS .type = type, .count = count, .send = send, .receive = receive

ncclResult_t
pncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
               cudaStream_t stream)
{
    struct collective collective = {OPERANDS, .kind = OPERATION_ALL_REDUCE, .op = op, .root = -1};
    return enqueue(comm, &collective, stream, "ncclAllReduce");
}
NCCL_EXPORT(ncclAllReduce);

static ncclResult_t
broadcast(const void *send, void *receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
          cudaStream_t stream, const char *call)
{
    struct collective collective = {OPERANDS, .kind = OPERATION_BROADCAST, .root = root};
    return enqueue(comm, &collective, stream, call);
}

ncclResult_t
pncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
               cudaStream_t stream)
{
    return broadcast(send, receive, count, type, root, comm, stream, "ncclBroadcast");
}
NCCL_EXPORT(ncclBroadcast);

ncclResult_t
pncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
    return broadcast(buffer, buffer, count, type, root, comm, stream, "ncclBcast");
}
NCCL_EXPORT(ncclBcast);

ncclResult_t
pncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
            ncclComm_t comm, cudaStream_t stream)
{
    struct collective collective = {OPERANDS, .kind = OPERATION_REDUCE, .op = op, .root = root};
    return enqueue(comm, &collective, stream, "ncclReduce");
}
NCCL_EXPORT(ncclReduce);

ncclResult_t
pncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    struct collective collective = {OPERANDS, .kind = OPERATION_ALL_GATHER, .root = -1};
    return enqueue(comm, &collective, stream, "ncclAllGather");
}
NCCL_EXPORT(ncclAllGather);

ncclResult_t
pncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                   cudaStream_t stream)
{
    struct collective collective = {OPERANDS, .kind = OPERATION_REDUCE_SCATTER, .op = op, .root = -1};
    return enqueue(comm, &collective, stream, "ncclReduceScatter");
}
NCCL_EXPORT(ncclReduceScatter);

static ncclResult_t
enqueue_transfer(struct ncclComm *comm, void *buffer, size_t count, ncclDataType_t type, int peer, bool is_send,
                 cudaStream_t stream, const char *call)
{
    COMM_VISIT(visit);
    ncclResult_t result = visit_begin_ready(comm, call, &visit);
    if (result == ncclSuccess)
        result = check_type(type, call);
    if (result == ncclSuccess)
        result = check_rank(comm, peer, "peer", call);
    if (result == ncclSuccess && count > 0 && !buffer)
        result = nccl_error(ncclInvalidArgument, "%s: the buffer is NULL", call);
    if (result == ncclSuccess && count > BUFFER_BYTES_MAX / 8)
        result = nccl_error(ncclInvalidArgument, "%s: a count of %zu", call, count);
    if (result != ncclSuccess)
        return group_refuse(result);
    struct transfer transfer = {
        .buffer = buffer, .bytes = count * type_bytes(type), .peer = peer, .type = (uint16_t)type, .is_send = is_send};
    return group_transfer(comm, &transfer, driver_stream(stream));
}

ncclResult_t
pncclSend(const void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return enqueue_transfer(comm, (void *)buffer, count, type, peer, true, stream, "ncclSend");
}
NCCL_EXPORT(ncclSend);

ncclResult_t
pncclRecv(void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return enqueue_transfer(comm, buffer, count, type, peer, false, stream, "ncclRecv");
}
NCCL_EXPORT(ncclRecv);

/* ---- operators ---- */

ncclResult_t
pncclRedOpCreatePreMulSum(ncclRedOp_t *op_p, void *scalar, ncclDataType_t type, ncclScalarResidence_t residence,
                          ncclComm_t comm)
{
    static const char call[] = "ncclRedOpCreatePreMulSum";
    COMM_VISIT(visit);
    TRY(visit_begin_ready(comm, call, &visit));
    TRY(check_type(type, call));
    if (!op_p || !scalar || (residence != ncclScalarDevice && residence != ncclScalarHostImmediate))
        return nccl_error(ncclInvalidArgument, "%s: no scalar, no place for the operator, or an unknown residence",
                          call);
    for (int i = 0; i < PREMULSUM_MAX; ++i) {
        struct premulsum *premulsum = &comm->premulsums[i];
        if (premulsum->is_used)
            continue;
        *premulsum = (struct premulsum){.is_used = true, .type = type};
        if (residence == ncclScalarDevice)
            premulsum->device_scalar = scalar;
        else
            memcpy(premulsum->value, scalar, type_bytes(type));
        *op_p = (ncclRedOp_t)(ncclNumOps + i);
        return ncclSuccess;
    }
    return nccl_error(ncclInvalidUsage, "%s: a communicator has at most %d operators", call, PREMULSUM_MAX);
}
NCCL_EXPORT(ncclRedOpCreatePreMulSum);

ncclResult_t
pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    COMM_VISIT(visit);
    TRY(visit_begin(comm, "ncclRedOpDestroy", &visit));
    unsigned index = (unsigned)op - ncclNumOps;
    if ((unsigned)op < ncclNumOps || index >= PREMULSUM_MAX || !comm->premulsums[index].is_used)
        return nccl_error(ncclInvalidArgument, "ncclRedOpDestroy: %d is not an operator of this communicator", (int)op);
    comm->premulsums[index].is_used = false;
    return ncclSuccess;
}
NCCL_EXPORT(ncclRedOpDestroy);

/* ---- between each and each, as groups of sends and receives ---- */

/* nccl.h declares these two without a prototype. */
ncclResult_t pncclGroupStart(void);
ncclResult_t pncclGroupEnd(void);

/* Sends to and receives from `first` to `end`; block r of a buffer is rank r's if the buffer has blocks. */
struct spread {
    const void *send;
    void *receive;
    int send_first, send_end, receive_first, receive_end;
    bool send_has_blocks, receive_has_blocks;
};

static ncclResult_t
run_spread(const struct spread *spread, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
           const char *call)
{
    size_t bytes = count * type_bytes(type);
    bool sends = spread->send_end > spread->send_first, receives = spread->receive_end > spread->receive_first;
    if (count > 0 && ((sends && !spread->send) || (receives && !spread->receive)))
        return group_refuse(nccl_error(ncclInvalidArgument, "%s: a buffer is NULL", call));
    ncclResult_t result = pncclGroupStart();
    for (int r = spread->send_first; r < spread->send_end && result == ncclSuccess; ++r)
        result = enqueue_transfer(comm, (unsigned char *)spread->send + (spread->send_has_blocks ? r * bytes : 0),
                                  count, type, r, true, stream, call);
    for (int r = spread->receive_first; r < spread->receive_end && result == ncclSuccess; ++r)
        result = enqueue_transfer(comm, (unsigned char *)spread->receive + (spread->receive_has_blocks ? r * bytes : 0),
                                  count, type, r, false, stream, call);
    ncclResult_t end = pncclGroupEnd();
    return result != ncclSuccess ? result : end;
}

/* What the three have in common; the root of all-to-all is rank 0, for nothing. */
static ncclResult_t
check_spread(struct ncclComm *comm, ncclDataType_t type, size_t count, int root, const char *call)
{
    COMM_VISIT(visit);
    ncclResult_t result = visit_begin_ready(comm, call, &visit);
    if (result == ncclSuccess)
        result = check_type(type, call);
    if (result == ncclSuccess)
        result = check_rank(comm, root, "root", call);
    if (result == ncclSuccess && count > BUFFER_BYTES_MAX / 8 / (size_t)comm->rank_count)
        result = nccl_error(ncclInvalidArgument, "%s: a count of %zu", call, count);
    return result == ncclSuccess ? result : group_refuse(result);
}

ncclResult_t
pncclAlltoAll(const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = check_spread(comm, type, count, 0, "ncclAlltoAll");
    if (result == ncclSuccess && send == receive && count > 0)
        result = group_refuse(nccl_error(ncclInvalidArgument, "ncclAlltoAll: it cannot be done in place"));
    if (result != ncclSuccess)
        return result;
    struct spread spread = {send, receive, 0, comm->rank_count, 0, comm->rank_count, true, true};
    return run_spread(&spread, count, type, comm, stream, "ncclAlltoAll");
}
NCCL_EXPORT(ncclAlltoAll);

ncclResult_t
pncclGather(const void *send, void *receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream)
{
    TRY(check_spread(comm, type, count, root, "ncclGather"));
    bool is_root = comm->rank == root;
    struct spread spread = {send, receive, root, root + 1, 0, is_root ? comm->rank_count : 0, false, true};
    return run_spread(&spread, count, type, comm, stream, "ncclGather");
}
NCCL_EXPORT(ncclGather);

ncclResult_t
pncclScatter(const void *send, void *receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
             cudaStream_t stream)
{
    TRY(check_spread(comm, type, count, root, "ncclScatter"));
    bool is_root = comm->rank == root;
    struct spread spread = {send, receive, 0, is_root ? comm->rank_count : 0, root, root + 1, true, false};
    return run_spread(&spread, count, type, comm, stream, "ncclScatter");
}
NCCL_EXPORT(ncclScatter);

/* ---- memory: on the stand-in all device memory is alike, but ranks have to register the same ---- */

ncclResult_t
pncclMemAlloc(void **memory_p, size_t bytes)
{
    if (!memory_p)
        return nccl_error(ncclInvalidArgument, "ncclMemAlloc: the place for the address is NULL");
    CUdeviceptr address = 0;
    if (bytes > 0) {
        CUcontext context;
        TRY(nccl_cuda(softgpu_context_ensure(&context), "finding the device"));
        TRY(nccl_cuda(softgpu_driver()->mem_alloc(&address, bytes), "cuMemAlloc"));
    }
    *memory_p = (void *)address;
    return ncclSuccess;
}
NCCL_EXPORT(ncclMemAlloc);

ncclResult_t
pncclMemFree(void *memory)
{
    if (!memory)
        return ncclSuccess;
    const struct softgpu_driver *driver = softgpu_driver();
    return nccl_cuda(driver ? driver->mem_free((CUdeviceptr)memory) : CUDA_ERROR_NOT_INITIALIZED, "cuMemFree");
}
NCCL_EXPORT(ncclMemFree);

ncclResult_t
pncclCommRegister(const ncclComm_t comm, void *buffer, size_t bytes, void **handle_p)
{
    COMM_VISIT(visit);
    TRY(visit_begin(comm, "ncclCommRegister", &visit));
    if (!buffer || bytes == 0 || !handle_p)
        return nccl_error(ncclInvalidArgument, "ncclCommRegister: no buffer, or no place for the handle");
    *handle_p = NULL;
    if (!conduct_registers())
        return ncclSuccess;
    struct registration *registration = malloc(sizeof(*registration));
    if (!registration)
        return nccl_error(ncclSystemError, "no memory for a registration");
    *registration = (struct registration){buffer, bytes, visit->registrations};
    visit->registrations = registration;
    *handle_p = registration;
    return ncclSuccess;
}
NCCL_EXPORT(ncclCommRegister);

ncclResult_t
pncclCommDeregister(const ncclComm_t comm, void *handle)
{
    COMM_VISIT(visit);
    TRY(visit_begin(comm, "ncclCommDeregister", &visit));
    if (!handle) /* what ncclCommRegister gives where it registers nothing */
        return ncclSuccess;
    struct registration **at = &visit->registrations;
    while (*at && *at != handle)
        at = &(*at)->next;
    if (!*at)
        return nccl_error(ncclInvalidArgument, "ncclCommDeregister: not a handle of this communicator");
    *at = (*at)->next;
    free(handle);
    return ncclSuccess;
}
NCCL_EXPORT(ncclCommDeregister);

/* Memory that all ranks register together is memory like any other here. */
ncclResult_t
pncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window_p, int flags)
{
    COMM_VISIT(visit);
    TRY(visit_begin_ready(comm, "ncclCommWindowRegister", &visit));
    if (!buffer || bytes == 0 || !window_p || (flags != NCCL_WIN_DEFAULT && flags != NCCL_WIN_COLL_SYMMETRIC))
        return nccl_error(ncclInvalidArgument,
                          "ncclCommWindowRegister: no buffer, no place for the window, or flags %d", flags);
    void *window = malloc(1);
    if (!window)
        return nccl_error(ncclSystemError, "no memory for a window");
    *window_p = window;
    return ncclSuccess;
}
NCCL_EXPORT(ncclCommWindowRegister);

ncclResult_t
pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    COMM_VISIT(visit);
    ncclResult_t result = visit_begin(comm, "ncclCommWindowDeregister", &visit);
    if (result == ncclSuccess)
        free(window);
    return result;
}
NCCL_EXPORT(ncclCommWindowDeregister);

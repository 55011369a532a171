/*
 * launch.c - see launch.h. The parameters of a kernel are the buffers, as pointers of their own so that an interposer
 * of the driver sees them, and a struct with the rest.
 */
#include "nccl/launch.h"

#include <string.h>

/* What a collective's kernel gets by value. */
struct collective_parameters {
    struct exchange *exchange;
    uint64_t count;
    int32_t type;
    int32_t op;
    int32_t root;
    int32_t pays_latency;
    int32_t is_registered;
    int32_t has_scalar;
    unsigned char scalar[8]; /* one element, if it does not come from the device */
};

struct transfer_parameters {
    struct exchange *exchange;
    int32_t count;
    int32_t pays_latency;
    struct transfer transfers[TRANSFERS_MAX];
};

_Static_assert(sizeof(struct transfer_parameters) <= 4096, "a kernel's parameters have 4 KiB");

enum { ARG_SEND, ARG_RECEIVE, ARG_DEVICE_SCALAR, ARG_PARAMETERS };

static void
run_collective(const struct softgpu_launch *launch, enum operation_kind kind)
{
    const struct collective_parameters *parameters = launch->args[ARG_PARAMETERS];
    const void *const *device_scalar = launch->args[ARG_DEVICE_SCALAR];
    struct collective collective = {
        .kind = kind,
        .type = (ncclDataType_t)parameters->type,
        .op = (ncclRedOp_t)parameters->op,
        .root = parameters->root,
        .count = parameters->count,
        .send = *(const void *const *)launch->args[ARG_SEND],
        .receive = *(void *const *)launch->args[ARG_RECEIVE],
        .scalar = !parameters->has_scalar ? NULL
                  : *device_scalar        ? *device_scalar
                                          : parameters->scalar,
        .is_registered = parameters->is_registered,
        .pays_latency = parameters->pays_latency,
    };
    collective_run(parameters->exchange, &collective);
    exchange_stall(parameters->exchange);
}

/* One kernel for each kind, so that traces tell them apart. */
#define DEFINE_KERNEL(function, kind)                         \
    static void function(const struct softgpu_launch *launch) \
    {                                                         \
        run_collective(launch, kind);                         \
    }

DEFINE_KERNEL(all_reduce_kernel, OPERATION_ALL_REDUCE)
DEFINE_KERNEL(broadcast_kernel, OPERATION_BROADCAST)
DEFINE_KERNEL(reduce_kernel, OPERATION_REDUCE)
DEFINE_KERNEL(all_gather_kernel, OPERATION_ALL_GATHER)
DEFINE_KERNEL(reduce_scatter_kernel, OPERATION_REDUCE_SCATTER)

static void
transfer_kernel(const struct softgpu_launch *launch)
{
    const struct transfer_parameters *parameters = launch->args[0];
    transfers_run(parameters->exchange, parameters->transfers, parameters->count, parameters->pays_latency);
    exchange_stall(parameters->exchange);
}

static const struct softgpu_param collective_layout[] = {
    [ARG_SEND] = {0, 8},
    [ARG_RECEIVE] = {8, 8},
    [ARG_DEVICE_SCALAR] = {16, 8},
    [ARG_PARAMETERS] = {24, sizeof(struct collective_parameters)},
};

static const struct softgpu_param transfer_layout[] = {{0, sizeof(struct transfer_parameters)}};

static struct softgpu_kernel collective_kernels[OPERATION_KIND_COUNT] = {
    [OPERATION_ALL_REDUCE] = SOFTGPU_KERNEL("ncclDevKernel_AllReduce", all_reduce_kernel, collective_layout),
    [OPERATION_BROADCAST] = SOFTGPU_KERNEL("ncclDevKernel_Broadcast", broadcast_kernel, collective_layout),
    [OPERATION_REDUCE] = SOFTGPU_KERNEL("ncclDevKernel_Reduce", reduce_kernel, collective_layout),
    [OPERATION_ALL_GATHER] = SOFTGPU_KERNEL("ncclDevKernel_AllGather", all_gather_kernel, collective_layout),
    [OPERATION_REDUCE_SCATTER] =
        SOFTGPU_KERNEL("ncclDevKernel_ReduceScatter", reduce_scatter_kernel, collective_layout),
};

static struct softgpu_kernel transfers_kernel =
    SOFTGPU_KERNEL("ncclDevKernel_SendRecv", transfer_kernel, transfer_layout);

/*
 * Operations of a communicator run in the order of their calls, on whatever streams: each waits for the event behind
 * the one before. Those in a capture do so among themselves; and the graph as a whole, at each launch, takes its place
 * in that order by event nodes: the first one's wait for the event as it is then, and the records after each.
 */

/* One step of a launch, for the message if it fails. */
struct step {
    const char *call;
    CUresult result;
};

static bool
take_step(struct step *step, const char *call, CUresult result)
{
    *step = (struct step){call, result};
    return result == CUDA_SUCCESS;
}

/* The capture's place in the communicator, new (and *is_new_p) if it has no operations of it yet. */
static struct comm_capture *
find_capture(struct ncclComm *comm, uint64_t id, bool *is_new_p)
{
    *is_new_p = false;
    for (int i = 0; i < CAPTURES_MAX; ++i) {
        if (comm->captures[i].id == id)
            return &comm->captures[i];
    }
    *is_new_p = true;
    return &comm->captures[comm->capture_count++ % CAPTURES_MAX];
}

static void
launch_in_capture(struct ncclComm *comm, struct softgpu_kernel *kernel, CUstream stream, void **args, uint64_t id,
                  struct step *step)
{
    const struct softgpu_driver *driver = softgpu_driver();
    bool is_new;
    struct comm_capture *capture = find_capture(comm, id, &is_new);
    if (!capture->behind &&
        !take_step(step, "cuEventCreate", driver->event_create(&capture->behind, CU_EVENT_DISABLE_TIMING)))
        return;
    capture->id = id;
    CUresult result = is_new ? driver->stream_wait_event(stream, comm->last_operation, CU_EVENT_WAIT_EXTERNAL)
                             : driver->stream_wait_event(stream, capture->behind, 0);
    if (take_step(step, "cuStreamWaitEvent", result) &&
        take_step(step, "cuLaunchKernel", softgpu_kernel_launch(kernel, stream, args)) &&
        take_step(step, "cuEventRecordWithFlags",
                  driver->event_record_with_flags(comm->last_operation, stream, CU_EVENT_RECORD_EXTERNAL)))
        take_step(step, "cuEventRecord", driver->event_record(capture->behind, stream));
}

static void
launch_at_once(struct ncclComm *comm, struct softgpu_kernel *kernel, CUstream stream, void **args, bool is_first,
               struct step *step)
{
    const struct softgpu_driver *driver = softgpu_driver();
    bool is_behind = is_first || (comm->capture_count == 0 && stream == comm->last_stream);
    if (!is_behind && !take_step(step, "cuStreamWaitEvent", driver->stream_wait_event(stream, comm->last_operation, 0)))
        return;
    if (take_step(step, "cuLaunchKernel", softgpu_kernel_launch(kernel, stream, args)) &&
        take_step(step, "cuEventRecord", driver->event_record(comm->last_operation, stream)))
        comm->last_stream = stream;
}

static ncclResult_t
launch_in_order(struct ncclComm *comm, struct softgpu_kernel *kernel, CUstream stream, void **args)
{
    const struct softgpu_driver *driver = softgpu_driver();
    CUcontext previous;
    CUresult result = comm_enter_context(comm, &previous);
    if (result != CUDA_SUCCESS)
        return nccl_cuda(result, "cuCtxSetCurrent");

    CUcontext context = NULL;
    result = driver->stream_get_ctx(stream, &context);
    if (result != CUDA_SUCCESS || context != comm->context) {
        comm_leave_context(comm, previous);
        return result != CUDA_SUCCESS
                   ? nccl_cuda(result, "cuStreamGetCtx")
                   : nccl_error(ncclUnhandledCudaError, "the stream belongs to another context than the device's "
                                                        "primary one, in which NCCL works");
    }

    struct step step = {0};
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    bool is_first = !comm->last_operation;
    if ((!is_first ||
         take_step(&step, "cuEventCreate", driver->event_create(&comm->last_operation, CU_EVENT_DISABLE_TIMING))) &&
        take_step(&step, "cuStreamGetCaptureInfo",
                  driver->stream_get_capture_info(stream, &status, &id, NULL, NULL, NULL, NULL))) {
        if (status == CU_STREAM_CAPTURE_STATUS_NONE)
            launch_at_once(comm, kernel, stream, args, is_first, &step);
        else
            launch_in_capture(comm, kernel, stream, args, id, &step);
    }
    comm_leave_context(comm, previous);
    return nccl_cuda(step.result, step.call);
}

ncclResult_t
launch_collective(struct ncclComm *comm, const struct collective *collective, const struct premulsum *premulsum,
                  CUstream stream)
{
    struct collective_parameters parameters = {
        .exchange = &comm->exchange,
        .count = collective->count,
        .type = collective->type,
        .op = collective->op,
        .root = collective->root,
        .pays_latency = collective->pays_latency,
        .is_registered = collective->is_registered,
        .has_scalar = premulsum != NULL,
    };
    const void *device_scalar = premulsum ? premulsum->device_scalar : NULL;
    if (premulsum)
        memcpy(parameters.scalar, premulsum->value, sizeof(parameters.scalar));
    const void *send = collective->send;
    void *receive = collective->receive;
    void *args[] = {&send, &receive, &device_scalar, &parameters};
    return launch_in_order(comm, &collective_kernels[collective->kind], stream, args);
}

ncclResult_t
launch_transfers(struct ncclComm *comm, const struct transfer *transfers, int count, bool pays_latency, CUstream stream)
{
    struct transfer_parameters parameters = {.exchange = &comm->exchange, .count = count, .pays_latency = pays_latency};
    memcpy(parameters.transfers, transfers, (size_t)count * sizeof(*transfers));
    void *args[] = {&parameters};
    return launch_in_order(comm, &transfers_kernel, stream, args);
}

/*
 * comm_api.c - the exported calls that make, end and ask a communicator, but for split.c's, and the version.
 */
#include "nccl/export.h"
#include "nccl/group.h"
#include "nccl/visit.h"

ncclResult_t
pncclGetVersion(int *version_p)
{
    if (!version_p)
        return nccl_error(ncclInvalidArgument, "ncclGetVersion: the place for the version is NULL");
    *version_p = conduct_version();
    return ncclSuccess;
}
NCCL_EXPORT(ncclGetVersion);

static ncclResult_t
init_rank(ncclComm_t *comm_p, int rank_count, const ncclUniqueId *id, int rank, bool is_blocking)
{
    if (!comm_p)
        return nccl_error(ncclInvalidArgument, "the place for the new communicator is NULL");
    struct ncclComm *comm = NULL;
    ncclResult_t result = comm_start(&comm, rank_count, id, rank, is_blocking);
    return comm != NULL && result == ncclSuccess ? group_publish(comm_p, comm) : result;
}

ncclResult_t
pncclGetUniqueId(ncclUniqueId *id)
{
    if (!id)
        return nccl_error(ncclInvalidArgument, "ncclGetUniqueId: the place for the id is NULL");
    struct bootstrap_error error;
    ncclResult_t result = bootstrap_get_id(id, &error);
    return result == ncclSuccess ? result : nccl_error(result, "ncclGetUniqueId: %s", error.text);
}
NCCL_EXPORT(ncclGetUniqueId);

ncclResult_t
pncclCommInitRank(ncclComm_t *comm, int rank_count, ncclUniqueId id, int rank)
{
    return init_rank(comm, rank_count, &id, rank, true);
}
NCCL_EXPORT(ncclCommInitRank);

ncclResult_t
pncclCommInitRankConfig(ncclComm_t *comm, int rank_count, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    bool is_blocking = true;
    ncclResult_t result = comm_config(config, &is_blocking);
    return result == ncclSuccess ? init_rank(comm, rank_count, &id, rank, is_blocking) : result;
}
NCCL_EXPORT(ncclCommInitRankConfig);

ncclResult_t
pncclCommInitAll(ncclComm_t *comms, int device_count, const int *devices)
{
    const struct softgpu_driver *driver = softgpu_driver();
    if (!driver)
        return nccl_error(ncclUnhandledCudaError, "ncclCommInitAll: there is no driver");
    if (!comms || device_count < 1)
        return nccl_error(ncclInvalidArgument, "ncclCommInitAll: %d devices", device_count);
    ncclUniqueId id;
    struct bootstrap_error error;
    ncclResult_t result = bootstrap_create_id(&id, &error); /* NCCL_COMM_ID is for ranks that cannot hand round an id */
    if (result != ncclSuccess)
        return nccl_error(result, "ncclCommInitAll: %s", error.text);
    CUcontext before = NULL;
    driver->ctx_get_current(&before);

    int started = 0;
    while (result == ncclSuccess && started < device_count) {
        CUcontext context;
        result = nccl_cuda(driver->primary_ctx_retain(&context, devices ? devices[started] : started),
                           "cuDevicePrimaryCtxRetain");
        if (result == ncclSuccess)
            result = nccl_cuda(driver->ctx_set_current(context), "cuCtxSetCurrent");
        if (result == ncclSuccess)
            result = comm_start(&comms[started], device_count, &id, started, true);
        if (result == ncclSuccess)
            ++started;
    }
    for (int i = 0; i < started; ++i) {
        if (result != ncclSuccess)
            bootstrap_cancel(&comms[i]->wait);
    }
    for (int i = 0; i < started; ++i) {
        ncclResult_t one = comm_finish_start(&comms[i]);
        if (one != ncclSuccess)
            result = result == ncclSuccess ? one : result;
    }
    driver->ctx_set_current(before);
    return result;
}
NCCL_EXPORT(ncclCommInitAll);

ncclResult_t
pncclCommFinalize(ncclComm_t comm)
{
    COMM_VISIT(visit);
    ncclResult_t result = visit_begin_ready(comm, "ncclCommFinalize", &visit);
    return result == ncclSuccess ? comm_finalize(comm) : result;
}
NCCL_EXPORT(ncclCommFinalize);

/*
 * What was enqueued runs to its end first; after an error it has none, and is given up. NULL is nothing to destroy, as
 * in NCCL.
 */
ncclResult_t
pncclCommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    COMM_VISIT(visit);
    TRY(visit_begin(comm, "ncclCommDestroy", &visit));
    if (segment_is_mapped(&comm->exchange.segment) && exchange_error(&comm->exchange, NULL, 0) != ncclSuccess)
        segment_interrupt(&comm->exchange.segment);
    visit = NULL;
    comm_end(comm);
    return ncclSuccess;
}
NCCL_EXPORT(ncclCommDestroy);

/* Another thread may be inside a call of the communicator: it gets an error, and this one waits for it to leave. */
ncclResult_t
pncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    TRY(comm_check(comm, "ncclCommAbort"));
    bootstrap_cancel(&comm->wait);
    if (atomic_load(&comm->stage) == COMM_INITIALISING)
        comm_join_worker(comm);
    if (segment_is_mapped(&comm->exchange.segment)) {
        segment_set_state(&comm->exchange.segment, RANK_ABORTED, NULL);
        segment_interrupt(&comm->exchange.segment);
    }
    visit_wait_for_others(comm);
    comm_end(comm);
    return ncclSuccess;
}
NCCL_EXPORT(ncclCommAbort);

ncclResult_t
pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error_p)
{
    static const char call[] = "ncclCommGetAsyncError";
    COMM_VISIT(visit);
    ncclResult_t result = comm_check(comm, call);
    if (result == ncclSuccess && !comm->is_blocking)
        result = visit_begin(comm, call, &visit);
    if (result != ncclSuccess)
        return result;
    if (!error_p)
        return nccl_error(ncclInvalidArgument, "ncclCommGetAsyncError: the place for the error is NULL");
    switch ((enum comm_stage)atomic_load(&comm->stage)) {
    case COMM_BROKEN:
        *error_p = comm->init_result;
        return ncclSuccess;
    case COMM_INITIALISING:
        *error_p = ncclInProgress;
        return ncclSuccess;
    case COMM_FINALIZING:
        *error_p = exchange_error(&comm->exchange, NULL, 0);
        if (*error_p == ncclSuccess)
            *error_p = ncclInProgress;
        return ncclSuccess;
    default:
        *error_p = exchange_error(&comm->exchange, NULL, 0);
        if (*error_p == ncclSuccess && !comm->is_blocking)
            *error_p = comm_work_state(comm);
        return ncclSuccess;
    }
}
NCCL_EXPORT(ncclCommGetAsyncError);

/* The three questions about a communicator differ in what they answer. */
#define DEFINE_QUESTION(name, answer)                                                           \
    ncclResult_t p##name(const ncclComm_t comm, int *answer_p)                                  \
    {                                                                                           \
        ncclResult_t result = comm_check(comm, #name);                                          \
        if (result != ncclSuccess)                                                              \
            return result;                                                                      \
        if (!answer_p)                                                                          \
            return nccl_error(ncclInvalidArgument, #name ": the place for the answer is NULL"); \
        *answer_p = answer;                                                                     \
        return ncclSuccess;                                                                     \
    }                                                                                           \
    NCCL_EXPORT(name)

DEFINE_QUESTION(ncclCommCount, comm->rank_count);
DEFINE_QUESTION(ncclCommCuDevice, comm->device);
DEFINE_QUESTION(ncclCommUserRank, comm->rank);

/*
 * comm.c - see comm.h: making and ending a communicator. The exported calls are in comm_api.c.
 */
#include "nccl/comm.h"

#include "nccl/address.h"
#include "nccl/export.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ncclResult_t
comm_check(const struct ncclComm *comm, const char *call)
{
    if (!comm)
        return nccl_error(ncclInvalidArgument, "%s: the communicator is NULL", call);
    if (comm->magic != COMM_MAGIC)
        return nccl_error(ncclInvalidArgument, "%s: the communicator was destroyed, or never was one", call);
    return ncclSuccess;
}

ncclResult_t
comm_work_state(struct ncclComm *comm)
{
    if (comm->work && !work_is_done(comm->work))
        return ncclInProgress;
    comm_end_work(comm);
    return comm->work_result;
}

void
comm_end_work(struct ncclComm *comm)
{
    if (!comm->work)
        return;
    ncclResult_t result = work_release(comm->work);
    comm->work = NULL;
    if (comm->work_result == ncclSuccess)
        comm->work_result = result;
}

ncclResult_t
comm_check_ready(struct ncclComm *comm, const char *call)
{
    TRY(comm_check(comm, call));
    switch ((enum comm_stage)atomic_load(&comm->stage)) {
    case COMM_READY:
        break;
    case COMM_INITIALISING:
        return nccl_error(ncclInvalidArgument,
                          "%s: the communicator is still being initialised (ncclCommGetAsyncError "
                          "returns ncclInProgress until it is ready)",
                          call);
    case COMM_BROKEN:
        return nccl_error(comm->init_result, "%s: the initialisation of the communicator failed: %s", call,
                          comm->init_error.text);
    default:
        return nccl_error(ncclInvalidUsage, "%s: the communicator was finalized", call);
    }
    char text[SEGMENT_TEXT_BYTES];
    ncclResult_t result = exchange_error(&comm->exchange, text, sizeof(text));
    if (result != ncclSuccess)
        return nccl_error(result, "%s: an earlier operation failed: %s", call, text);
    result = comm_work_state(comm);
    if (result == ncclInProgress)
        return nccl_error(ncclInvalidArgument,
                          "%s: an earlier call of this communicator, which does not block, is still under way "
                          "(ncclCommGetAsyncError returns ncclInProgress until it is done)",
                          call);
    return result == ncclSuccess ? result : nccl_error(result, "%s: an earlier call failed", call);
}

CUresult
comm_enter_context(const struct ncclComm *comm, CUcontext *previous_p)
{
    const struct softgpu_driver *driver = softgpu_driver();
    CUcontext previous = NULL;
    CUresult result = driver->ctx_get_current(&previous);
    if (result == CUDA_SUCCESS && previous != comm->context)
        result = driver->ctx_set_current(comm->context);
    if (result == CUDA_SUCCESS)
        *previous_p = previous;
    return result;
}

void
comm_leave_context(const struct ncclComm *comm, CUcontext previous)
{
    if (previous != comm->context)
        softgpu_driver()->ctx_set_current(previous);
}

/* ---- threads ---- */

static ncclResult_t
take_memory(struct ncclComm *comm)
{
    size_t bytes = comm->conduct.takes_bytes * (comm->conduct.connects_at_start ? 2 : 1);
    return bytes == 0 ? ncclSuccess : nccl_cuda(softgpu_driver()->mem_alloc(&comm->taken, bytes), "cuMemAlloc");
}

/* What NVIDIA's NCCL does of its own accord when a communicator begins, by this thread of NCCL's. */
static ncclResult_t
begin_conduct(struct ncclComm *comm)
{
    if (!comm->conduct.calls && comm->conduct.takes_bytes == 0)
        return ncclSuccess;
    ncclResult_t result = nccl_cuda(softgpu_driver()->ctx_set_current(comm->context), "cuCtxSetCurrent");
    if (result == ncclSuccess && comm->conduct.calls)
        result = conduct_call();
    if (result == ncclSuccess)
        result = take_memory(comm);
    if (result != ncclSuccess)
        snprintf(comm->init_error.text, sizeof(comm->init_error.text), "%s", ncclGetLastError(NULL));
    return result;
}

static void *
initialise(void *argument)
{
    struct ncclComm *comm = argument;
    ncclResult_t result = comm->origin.meet ? comm->origin.meet(comm) : ncclSuccess;
    if (result == ncclSuccess && comm->rank_count > 0)
        result = begin_conduct(comm);
    if (result == ncclSuccess && comm->rank_count > 0)
        result = bootstrap_join(&comm->exchange.segment, &comm->id, comm->rank, comm->rank_count, &comm->wait,
                                &comm->init_error);
    comm->init_result = result;
    atomic_store(&comm->stage, result == ncclSuccess ? COMM_READY : COMM_BROKEN);
    return NULL;
}

void
comm_wait_for_operations(struct ncclComm *comm)
{
    if (!comm->last_operation)
        return;
    CUcontext previous;
    if (comm_enter_context(comm, &previous) != CUDA_SUCCESS)
        return; /* the context is gone, and the operations with it */
    softgpu_driver()->event_synchronize(comm->last_operation);
    comm_leave_context(comm, previous);
}

static void *
finalize(void *argument)
{
    struct ncclComm *comm = argument;
    comm_wait_for_operations(comm);
    atomic_store(&comm->stage, COMM_FINALIZED);
    return NULL;
}

/* Runs `function` in a thread that no signal of the program is delivered to. */
static ncclResult_t
start_worker(struct ncclComm *comm, void *(*function)(void *))
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&comm->worker, NULL, function, comm);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return nccl_error(ncclSystemError, "cannot start a thread: %s", strerror(error));
    comm->has_worker = true;
    return ncclSuccess;
}

void
comm_join_worker(struct ncclComm *comm)
{
    if (comm->has_worker)
        pthread_join(comm->worker, NULL);
    comm->has_worker = false;
}

ncclResult_t
comm_finalize(struct ncclComm *comm)
{
    comm_join_worker(comm);
    atomic_store(&comm->stage, COMM_FINALIZING);
    if (comm->is_blocking) {
        finalize(comm);
        return ncclSuccess;
    }
    ncclResult_t result = start_worker(comm, finalize);
    return result == ncclSuccess ? ncclInProgress : result;
}

/* ---- life ---- */

static void
release_device(struct ncclComm *comm)
{
    CUcontext previous;
    if ((!comm->last_operation && comm->taken == 0) || comm_enter_context(comm, &previous) != CUDA_SUCCESS)
        return;
    if (comm->last_operation)
        softgpu_driver()->event_destroy(comm->last_operation);
    if (comm->taken != 0)
        softgpu_driver()->mem_free(comm->taken);
    comm_leave_context(comm, previous);
}

/* Graphs that hold operations of a communicator may be launched when it is destroyed, and then have to find that out:
 * some ten KiB of it stay. */
static void
keep_for_graphs(struct ncclComm *comm)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `ended` */
    static struct ncclComm *ended;
    exchange_end(&comm->exchange);
    pthread_mutex_lock(&lock);
    comm->next_ended = ended;
    ended = comm;
    pthread_mutex_unlock(&lock);
}

static void
destroy_comm(struct ncclComm *comm)
{
    comm->magic = 0;
    if (comm->capture_count > 0) {
        keep_for_graphs(comm);
        return;
    }
    release_device(comm);
    exchange_release(&comm->exchange);
    while (comm->registrations) {
        struct registration *next = comm->registrations->next;
        free(comm->registrations);
        comm->registrations = next;
    }
    free(comm);
}

void
comm_end(struct ncclComm *comm)
{
    comm_end_work(comm);
    comm_join_worker(comm);
    comm_wait_for_operations(comm);
    if (segment_is_mapped(&comm->exchange.segment))
        segment_set_state(&comm->exchange.segment, RANK_LEFT, NULL);
    destroy_comm(comm);
}

/* A communicator without its place among others, whose initialisation begins. */
static ncclResult_t
start_comm(struct ncclComm *comm)
{
    comm->magic = COMM_MAGIC;
    comm->wait = (struct bootstrap_wait)BOOTSTRAP_WAIT_INITIALIZER;
    return start_worker(comm, initialise);
}

/* NULL, and the error noted, without memory. */
static struct ncclComm *
new_comm(bool is_blocking)
{
    struct ncclComm *comm = calloc(1, sizeof(*comm));
    if (!comm) {
        nccl_error(ncclSystemError, "no memory for a communicator");
        return NULL;
    }
    exchange_init(&comm->exchange);
    comm->is_blocking = is_blocking;
    return comm;
}

ncclResult_t
comm_start(struct ncclComm **comm_p, int rank_count, const ncclUniqueId *id, int rank, bool is_blocking)
{
    if (rank_count < 1 || rank_count > SEGMENT_MAX_RANKS)
        return nccl_error(ncclInvalidArgument, "a communicator of %d ranks: the stand-in has 1 to %d", rank_count,
                          SEGMENT_MAX_RANKS);
    if (rank < 0 || rank >= rank_count)
        return nccl_error(ncclInvalidArgument, "rank %d of %d ranks: ranks are 0 to %d", rank, rank_count,
                          rank_count - 1);
    struct link_model link;
    const char *link_text = getenv(LINK_VARIABLE);
    if (!link_model_parse(link_text, &link)) {
        softgpu_line("%s=%s is malformed: give latency_us=NUMBER,gbytes_per_s=NUMBER,busy_factor=NUMBER, or some",
                     LINK_VARIABLE, link_text);
        return nccl_error(ncclInvalidArgument, "%s=%s is malformed", LINK_VARIABLE, link_text);
    }
    if (net_silence_s() == 0)
        return nccl_error(ncclInvalidArgument, "SOFTGPU_NCCL_SILENCE_S=%s is malformed: give 1 to 3600 (seconds)",
                          getenv("SOFTGPU_NCCL_SILENCE_S"));
    struct conduct conduct;
    TRY(conduct_read(&conduct));
    CUcontext context;
    TRY(nccl_cuda(softgpu_context_ensure(&context), "finding the device"));
    struct ncclComm *comm = new_comm(is_blocking);
    if (!comm)
        return ncclSystemError;
    comm->conduct = conduct;
    comm->exchange.link = link;
    comm->exchange.corrupts = conduct.corrupts;
    comm->exchange.work_running = softgpu_driver()->work_running;
    comm->exchange.link_begins = softgpu_driver()->link_begins;
    comm->exchange.link_ends = softgpu_driver()->link_ends;
    comm->id = *id;
    comm->rank = rank;
    comm->rank_count = rank_count;
    ncclResult_t result = nccl_cuda(softgpu_driver()->ctx_get_device(&comm->device), "cuCtxGetDevice");
    if (result == ncclSuccess) /* kept for good, as by the runtime that NCCL has in it */
        result = nccl_cuda(softgpu_driver()->primary_ctx_retain(&comm->context, comm->device), "the primary context");
    if (result == ncclSuccess)
        result = start_comm(comm);
    if (result != ncclSuccess) {
        destroy_comm(comm);
        return result;
    }
    *comm_p = comm;
    return ncclSuccess;
}

ncclResult_t
comm_start_child(struct ncclComm **comm_p, const struct comm_origin *origin, bool is_blocking)
{
    struct ncclComm *comm = new_comm(is_blocking);
    if (!comm)
        return ncclSystemError;
    comm->origin = *origin;
    comm->conduct = origin->parent->conduct;
    comm->exchange.link = origin->parent->exchange.link;
    comm->exchange.work_running = origin->parent->exchange.work_running;
    comm->exchange.link_begins = origin->parent->exchange.link_begins;
    comm->exchange.link_ends = origin->parent->exchange.link_ends;
    comm->context = origin->parent->context;
    comm->device = origin->parent->device;
    ncclResult_t result = start_comm(comm);
    if (result != ncclSuccess) {
        destroy_comm(comm);
        return result;
    }
    *comm_p = comm;
    return ncclSuccess;
}

ncclResult_t
comm_finish_start(struct ncclComm **comm_p)
{
    struct ncclComm *comm = *comm_p;
    comm_join_worker(comm);
    ncclResult_t result = comm->init_result;
    if (result == ncclSuccess && comm->rank_count > 0)
        return result;
    if (result != ncclSuccess && comm->origin.parent)
        nccl_error(result, "a communicator made from another: %s", comm->init_error.text);
    else if (result != ncclSuccess)
        nccl_error(result, "rank %d of %d: %s", comm->rank, comm->rank_count, comm->init_error.text);
    destroy_comm(comm);
    *comm_p = NULL;
    return result;
}

/* The beginning of ncclConfig_t, which every version of nccl.h has; what lies after it may be shorter or longer. */
_Static_assert(sizeof(ncclUniqueId) == 128 && offsetof(ncclConfig_t, size) == 0 && offsetof(ncclConfig_t, magic) == 8 &&
                   offsetof(ncclConfig_t, version) == 12 && offsetof(ncclConfig_t, blocking) == 16,
               "nccl.h of NCCL 2");

/* `size` tells how much of the struct the caller's header knew; `blocking` has been in it from the beginning. */
ncclResult_t
comm_config(const ncclConfig_t *config, bool *is_blocking_p)
{
    if (!config)
        return ncclSuccess;
    if (config->magic != 0xcafebeefu || config->size < offsetof(ncclConfig_t, blocking) + sizeof(config->blocking))
        return nccl_error(ncclInvalidArgument, "the configuration was not made with NCCL_CONFIG_INITIALIZER");
    if (config->blocking == NCCL_CONFIG_UNDEF_INT)
        return ncclSuccess;
    if (config->blocking != 0 && config->blocking != 1)
        return nccl_error(ncclInvalidArgument, "the configuration has blocking=%d: give 0 or 1", config->blocking);
    *is_blocking_p = config->blocking != 0;
    return ncclSuccess;
}

/* collectives.c - see collectives.h. */
#include "comm/collectives.h"

#include "base/assertion.h"
#include "base/clock.h"
#include "base/message.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool
cuda_ok(const struct driver *driver, CUresult result, const char *what, struct comm_error *error)
{
    return result == CUDA_SUCCESS || driver_fail(driver, result, what, error);
}

static bool
nccl_failed(const struct collectives *c, ncclComm_t comm, ncclResult_t result, const char *what,
            struct comm_error *error)
{
    /* NCCL calls CUDA, too, and meets what the trainer's kernels have left behind. */
    CUstreamCaptureStatus unused;
    CUresult fault = result == ncclUnhandledCudaError && c->stream != NULL
                         ? c->driver->cuStreamIsCapturing_p(c->stream, &unused)
                         : CUDA_SUCCESS;
    if (driver_result_is_fault(fault))
        return driver_fail(c->driver, fault, what, error);
    const char *detail = c->nccl->ncclGetLastError_p(comm);
    return comm_fail_by(error, result == ncclRemoteError ? COMM_OTHERS : COMM_UNCLEAR, "%s: %s%s%.300s", what,
                        c->nccl->ncclGetErrorString_p(result), detail != NULL && detail[0] != '\0' ? ": " : "",
                        detail != NULL ? detail : "");
}

/* ---- calls that wait for other ranks ---- */

static bool
nccl_ok(const struct collectives *c, ncclComm_t comm, ncclResult_t result, const char *what, struct comm_error *error)
{
    return result == ncclSuccess || nccl_failed(c, comm, result, what, error);
}

/* The issuer enters and leaves a call that may connect ranks. */
static struct communicator *
enter_call(struct communicator *communicator)
{
    ASSERT(atomic_load(&communicator->called_us) == 0);
    atomic_store(&communicator->called_us, clock_now_us());
    return communicator;
}

static bool
leave_call(const struct collectives *c, struct communicator *communicator, ncclResult_t result, const char *what,
           struct comm_error *error)
{
    atomic_store(&communicator->called_us, 0);
    return nccl_ok(c, communicator->comm, result, what, error);
}

/* Work that may never return, in a thread of its own. */
struct task {
    struct collectives *c;
    bool (*work)(struct collectives *c, struct comm_error *error);
    pthread_mutex_t lock;   /* guards what follows */
    pthread_cond_t is_over; /* done was set */
    bool done, good;
    struct comm_error error;
};

static void *
run_task(void *argument)
{
    struct task *task = argument;
    struct comm_error error = {""};
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* some stream of the trainer may be captured */
    const struct driver *driver = task->c->driver;
    bool good = cuda_ok(driver, driver->cuCtxSetCurrent_p(task->c->context), "cuCtxSetCurrent", &error) &&
                cuda_ok(driver, driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode",
                        &error) &&
                task->work(task->c, &error);
    pthread_mutex_lock(&task->lock);
    task->error = error;
    task->good = good;
    task->done = true;
    pthread_cond_signal(&task->is_over);
    pthread_mutex_unlock(&task->lock);
    return NULL;
}

static bool
wait_for_task(struct task *task, int timeout_s)
{
    struct timespec until;
    int result = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_s;
    pthread_mutex_lock(&task->lock);
    while (!task->done && result == 0)
        result = pthread_cond_clockwait(&task->is_over, &task->lock, CLOCK_MONOTONIC, &until);
    bool done = task->done;
    pthread_mutex_unlock(&task->lock);
    return done;
}

/* Runs `work`, for which all ranks have come, for at most c->timeout_s seconds. Where that is over, the thread stays
 * where it is, for the life of the process. */
static bool
run_in_time(struct collectives *c, bool (*work)(struct collectives *, struct comm_error *), const char *what,
            struct comm_error *error)
{
    pthread_t thread;
    sigset_t all, before;
    struct task *task = malloc(sizeof(*task));
    if (task == NULL)
        return comm_fail(error, "%s: out of memory", what);
    *task = (struct task){.c = c, .work = work, .lock = PTHREAD_MUTEX_INITIALIZER, .is_over = PTHREAD_COND_INITIALIZER};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, run_task, task);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        free(task);
        return comm_fail(error, "%s: out of threads, or of memory for thread-local variables", what);
    }
    if (!wait_for_task(task, c->timeout_s)) {
        (void)pthread_detach(thread);
        return comm_fail(error,
                         "%s: all ranks have come, and NCCL has not returned within %d s (--timeout); NCCL_DEBUG=INFO "
                         "shows what NCCL waits for",
                         what, c->timeout_s);
    }
    (void)pthread_join(thread, NULL);
    bool good = task->good;
    if (!good)
        *error = task->error;
    free(task);
    return good;
}

/* ---- the beginning ---- */

static bool
create_stream(struct collectives *c, struct communicator *communicator, struct comm_error *error)
{
    int least = 0, greatest = 0;
    return cuda_ok(c->driver, c->driver->cuCtxGetStreamPriorityRange_p(&least, &greatest),
                   "cuCtxGetStreamPriorityRange", error) &&
           cuda_ok(c->driver,
                   c->driver->cuStreamCreateWithPriority_p(&communicator->stream, CU_STREAM_NON_BLOCKING, greatest),
                   "cuStreamCreateWithPriority", error);
}

/* Without kernels, buckets can be packed all the same; converted they cannot be. */
static bool
load_kernels(struct collectives *c, const struct collectives_options *options, struct comm_error *error)
{
    struct comm_error why = {"they are not installed"};
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* some stream of the trainer may be captured */
    if (!cuda_ok(c->driver, c->driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode",
                 error))
        return false;
    bool loaded =
        options->kernels_path != NULL && kernels_load(&c->setting.kernels, c->driver, options->kernels_path, &why);
    if (!cuda_ok(c->driver, c->driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode",
                 error))
        return false;
    if (!loaded && options->kernels_path != NULL && options->compression == DDPRUN_COMPRESS_NONE && c->rank == 0)
        message_warning("no_kernels",
                        "%s; buckets are packed by copies, gradients are averaged at DDP_STEP, without overlap, and "
                        "memory is hashed on the host",
                        why.text);
    return loaded || options->compression == DDPRUN_COMPRESS_NONE ||
           comm_fail(error,
                     "--compress needs ddprun's own kernels: %.300s; `ddprun doctor` says which file the driver "
                     "loads; or leave --compress out",
                     why.text);
}

/* Collective: out[bytes] becomes what rank 0 has. */
static bool
share(struct control *control, const char *about, const void *mine, void *out, size_t bytes, struct comm_error *error)
{
    struct control_messages all;
    if (!control_exchange(control, about, mine, bytes, &all, error))
        return false;
    bool fits = all.bytes[0] == bytes;
    memcpy(out, fits ? all.messages[0] : mine, bytes);
    control_free_messages(&all);
    return fits ||
           comm_fail(error, "ranks 0 and %d differ in %s; all ranks must use the same ddprun", control->rank, about);
}

/* What rank 0 shows to all: ranks that send buckets in other ways would take each other's bytes for their own. */
struct opening {
    int32_t reduction, compression;
    ncclUniqueId id;
};

static bool
share_opening(struct collectives *c, struct control *control, struct opening *opening, struct comm_error *error)
{
    struct opening mine = {.reduction = (int32_t)c->setting.reduction, .compression = (int32_t)c->setting.compression};
    ncclResult_t result = c->rank == 0 ? NCCL_CALL(c->nccl, ncclGetUniqueId, &mine.id) : ncclSuccess;
    if (result != ncclSuccess)
        return nccl_failed(c, NULL, result, "ncclGetUniqueId", error);
    if (!share(control, "the exchange of \"ddprun.nccl\"", &mine, opening, sizeof(*opening), error))
        return false;
    bool same = opening->reduction == mine.reduction && opening->compression == mine.compression;
    return same || comm_fail(error,
                             "ranks 0 and %d were started with different --reduce or --compress; start all with the "
                             "same options",
                             c->rank);
}

/*
 * Blocks that kernels of the program's communicator have at most. A kernel of a bucket and one of these may wait on the
 * device at the same time, on different ranks for each other: none of them may keep the other from being resident. NCCL
 * takes at most 64 blocks for a kernel (MAXCHANNELS), of which a multiprocessor holds one or more.
 */
enum { PROGRAM_CTAS_AT_MOST = 16 };

static bool
create_next(struct collectives *c, struct comm_error *error)
{
    unsigned which = atomic_load(&c->open_count);
    ASSERT(which < COMMUNICATORS);
    struct communicator *communicator = &c->communicators[which];
    struct nccl_config config;
    nccl_config_fill(&config, c->nccl->version, true);
    if (which == COMMUNICATOR_PROGRAM)
        config.max_ctas = PROGRAM_CTAS_AT_MOST;
    ncclResult_t result = NCCL_CALL(c->nccl, ncclCommInitRankConfig, &communicator->comm, c->world_size,
                                    communicator->id, c->rank, (ncclConfig_t *)&config);
    c->start_result = result;
    return nccl_ok(c, NULL, result, "ncclCommInitRankConfig", error);
}

/* NCCL takes from some hundred MiB to more than 1 GiB for a communicator, and its words do not name memory. */
enum { NCCL_TAKES_MIB = 2048, NCCL_LEAVE_MIB = 1536 };

static size_t
free_mib(const struct driver *driver)
{
    size_t free_bytes = 0, all_bytes = 0;
    return driver->cuMemGetInfo_p(&free_bytes, &all_bytes) == CUDA_SUCCESS ? free_bytes >> 20 : SIZE_MAX;
}

/* After a start of NCCL's that has failed by a call of CUDA: what the user can try, which NCCL's words do not name. */
static void
add_advice(struct comm_error *error, size_t before, size_t after)
{
    size_t length = strlen(error->text);
    if (before < NCCL_TAKES_MIB && after != SIZE_MAX)
        snprintf(
            error->text + length, sizeof(error->text) - length,
            "; the device had %zu MiB free before, %zu MiB after: let the program leave %d MiB (--reserve %d answers "
            "its cudaMemGetInfo so much less), or lower what NCCL takes (NCCL_BUFFSIZE=1048576, "
            "NCCL_MAX_NCHANNELS=4, NCCL_NVLS_ENABLE=0)",
            before, after, NCCL_LEAVE_MIB, NCCL_LEAVE_MIB);
    else
        snprintf(error->text + length, sizeof(error->text) - length,
                 "; NCCL_NVLS_ENABLE=0 helps where NVLS cannot start (no Fabric Manager, or a container without "
                 "/dev/nvidia-caps)");
}

/* The next communicator, whose id and stream are there: all ranks have come to exchange the id. Collective. */
static bool
open_next(struct collectives *c, struct comm_error *error)
{
    size_t before = free_mib(c->driver);
    if (!run_in_time(c, create_next, "ncclCommInitRankConfig", error)) {
        if (c->start_result == ncclUnhandledCudaError && error->cause != COMM_FAULT)
            add_advice(error, before, free_mib(c->driver));
        return false;
    }
    atomic_fetch_add(&c->open_count, 1);
    return true;
}

bool
collectives_open(struct collectives *c, const struct driver *driver, const struct nccl *nccl, struct control *control,
                 const struct collectives_options *options, struct comm_error *error)
{
    *c = (struct collectives){.driver = driver,
                              .nccl = nccl,
                              .setting = {.driver = driver,
                                          .world_size = control->world_size,
                                          .reduction = options->reduction,
                                          .compression = options->compression},
                              .rank = control->rank,
                              .world_size = control->world_size,
                              .timeout_s = options->timeout_s};
    struct opening opening;
    struct communicator *own = &c->communicators[COMMUNICATOR_ENGINE];
    if (!cuda_ok(driver, driver->cuCtxGetCurrent_p(&c->context), "cuCtxGetCurrent", error) ||
        !create_stream(c, own, error))
        return false;
    c->stream = own->stream;
    if (!load_kernels(c, options, error) || !share_opening(c, control, &opening, error))
        return false;
    own->id = opening.id;
    return open_next(c, error);
}

/* ---- the communicator of the program's own reductions ---- */

bool
collectives_open_program(struct collectives *c, struct control *control, struct comm_error *error)
{
    ncclUniqueId id;
    struct communicator *own = &c->communicators[COMMUNICATOR_PROGRAM];
    memset(&id, 0, sizeof(id));
    ncclResult_t result = c->rank == 0 ? NCCL_CALL(c->nccl, ncclGetUniqueId, &id) : ncclSuccess;
    if (result != ncclSuccess)
        return nccl_failed(c, NULL, result, "ncclGetUniqueId", error);
    return create_stream(c, own, error) &&
           share(control, "the exchange of \"ddprun.nccl.program\"", &id, &own->id, sizeof(own->id), error) &&
           open_next(c, error);
}

bool
collectives_reduce_program(struct collectives *c, CUdeviceptr address, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, struct comm_error *error)
{
    void *memory = (void *)(uintptr_t)address;
    struct communicator *own = &c->communicators[COMMUNICATOR_PROGRAM];
    struct wire_mean mean = operation == ncclAvg ? wire_mean(&c->setting, type) : (struct wire_mean){operation, 1, 1};
    if (!wire_scale(&c->setting, address, count, type, 1, mean.before, own->stream, error))
        return false;
    enter_call(own);
    ncclResult_t result =
        NCCL_CALL(c->nccl, ncclAllReduce, memory, memory, count, type, mean.operation, own->comm, own->stream);
    return leave_call(c, own, result, "ncclAllReduce", error) &&
           wire_scale(&c->setting, address, count, type, 1, mean.after, own->stream, error);
}

/* ---- what is sent ---- */

bool
collectives_own_stream(const struct collectives *c, CUstream stream)
{
    for (unsigned i = 0; i < atomic_load(&c->open_count); ++i) {
        if (c->communicators[i].stream == stream)
            return true;
    }
    return false;
}

bool
collectives_send_from_zero(struct collectives *c, CUdeviceptr from, CUdeviceptr to, size_t bytes, CUstream stream,
                           struct comm_error *error)
{
    struct communicator *of = enter_call(&c->communicators[COMMUNICATOR_ENGINE]);
    ncclResult_t result = NCCL_CALL(c->nccl, ncclBroadcast, (const void *)(uintptr_t)from, (void *)(uintptr_t)to, bytes,
                                    ncclUint8, 0, of->comm, stream);
    return leave_call(c, of, result, "ncclBroadcast", error);
}

bool
collectives_broadcast(struct collectives *c, CUdeviceptr address, size_t bytes, struct comm_error *error)
{
    return collectives_send_from_zero(c, address, address, bytes, c->stream, error) &&
           cuda_ok(c->driver, c->driver->cuStreamSynchronize_p(c->stream), "waiting for ncclBroadcast", error);
}

bool
collectives_place(struct collectives *c, struct bucket_wire *wire, const struct bucket_member *members,
                  size_t member_count, ncclDataType_t type, struct comm_error *error)
{
    return wire_place(wire, &c->setting, members, member_count, type, c->stream, error);
}

/* In place, through the engine's communicator. */
static bool
all_reduce(struct collectives *c, CUdeviceptr address, size_t count, ncclDataType_t type, ncclRedOp_t operation,
           CUstream stream, struct comm_error *error)
{
    void *memory = (void *)(uintptr_t)address;
    struct communicator *of = enter_call(&c->communicators[COMMUNICATOR_ENGINE]);
    ncclResult_t result = NCCL_CALL(c->nccl, ncclAllReduce, memory, memory, count, type, operation, of->comm, stream);
    return leave_call(c, of, result, "ncclAllReduce", error);
}

static bool
reduce_wire(struct collectives *c, const struct bucket_wire *wire, CUstream stream, struct comm_error *error)
{
    return all_reduce(c, wire->address, wire->element_count, wire->type, wire_operation(wire, &c->setting), stream,
                      error);
}

bool
collectives_reduce(struct collectives *c, const struct bucket_wire *wire, double weight, CUstream stream,
                   struct comm_error *error)
{
    return wire_pack(wire, &c->setting, weight, stream, error) && reduce_wire(c, wire, stream, error) &&
           wire_unpack(wire, &c->setting, stream, error);
}

bool
collectives_speculate(struct collectives *c, const struct bucket_wire *wire, double weight, CUevent packed,
                      CUstream stream, struct comm_error *error)
{
    return wire_pack_digested(wire, &c->setting, weight, stream, error) &&
           cuda_ok(c->driver, c->driver->cuEventRecord_p(packed, stream), "cuEventRecord after packing", error) &&
           reduce_wire(c, wire, stream, error);
}

bool
collectives_reduce_packed(struct collectives *c, const struct bucket_wire *wire, double weight, CUstream stream,
                          struct comm_error *error)
{
    return wire_pack(wire, &c->setting, weight, stream, error) && reduce_wire(c, wire, stream, error);
}

bool
collectives_commit(struct collectives *c, const struct bucket_wire *wire, CUstream stream, struct comm_error *error)
{
    return wire_unpack(wire, &c->setting, stream, error);
}

bool
collectives_commit_guarded(struct collectives *c, const struct bucket_wire *wire, const struct chunk_guard *guard,
                           CUstream stream, struct comm_error *error)
{
    return wire_unpack_guarded(wire, &c->setting, guard, stream, error);
}

bool
collectives_discard(struct collectives *c, const struct bucket_wire *wire, CUstream stream, struct comm_error *error)
{
    return wire_clear(wire, &c->setting, stream, error) && reduce_wire(c, wire, stream, error);
}

bool
collectives_add_words(struct collectives *c, CUdeviceptr words, size_t count, CUstream stream, struct comm_error *error)
{
    return all_reduce(c, words, count, ncclUint32, ncclSum, stream, error);
}

bool
collectives_gather_words(struct collectives *c, CUdeviceptr send, CUdeviceptr receive, size_t count,
                         struct comm_error *error)
{
    struct communicator *of = enter_call(&c->communicators[COMMUNICATOR_ENGINE]);
    ncclResult_t result = NCCL_CALL(c->nccl, ncclAllGather, (const void *)(uintptr_t)send, (void *)(uintptr_t)receive,
                                    count, ncclUint64, of->comm, of->stream);
    return leave_call(c, of, result, "ncclAllGather", error);
}

/* ---- the end ---- */

bool
collectives_sound(struct collectives *c, struct comm_error *error)
{
    for (unsigned i = 0; i < atomic_load(&c->open_count); ++i) {
        ncclResult_t state = ncclSuccess;
        ncclComm_t comm = c->communicators[i].comm;
        ncclResult_t asked = c->nccl->ncclCommGetAsyncError_p(comm, &state);
        if (asked != ncclSuccess)
            return nccl_failed(c, comm, asked, "ncclCommGetAsyncError", error);
        if (state != ncclSuccess)
            return nccl_failed(c, comm, state, "NCCL", error);
    }
    return true;
}

int64_t
collectives_in_call_us(const struct collectives *c, unsigned communicator)
{
    int64_t called_us = atomic_load(&c->communicators[communicator].called_us);
    int64_t now_us = clock_now_us();
    return called_us != 0 && now_us > called_us ? now_us - called_us : 0;
}

static bool
close_communicators(struct collectives *c, struct comm_error *error)
{
    for (unsigned i = 0; i < atomic_load(&c->open_count); ++i) {
        ncclComm_t comm = c->communicators[i].comm;
        if (comm == NULL)
            continue;
        if (!cuda_ok(c->driver, c->driver->cuStreamSynchronize_p(c->communicators[i].stream), "cuStreamSynchronize",
                     error) ||
            !nccl_ok(c, comm, NCCL_CALL(c->nccl, ncclCommFinalize, comm), "ncclCommFinalize", error) ||
            !nccl_ok(c, NULL, NCCL_CALL(c->nccl, ncclCommDestroy, comm), "ncclCommDestroy", error))
            return false;
        c->communicators[i].comm = NULL;
    }
    return true;
}

void
collectives_close(struct collectives *c)
{
    struct comm_error ignored;
    (void)run_in_time(c, close_communicators, "ncclCommFinalize", &ignored);
}

/*
 * reduce.c - DDP_REDUCE: the program's own sums, means, minima and maxima over all ranks.
 *
 * Called by the shim in the thread that reduces, one at a time. The calls of a rank are numbered and sent in their
 * order through a communicator of their own (comm/collectives.h says why), which is opened by the first. Before the
 * first call of each combination of place, count, type and operation the ranks compare it through the control plane:
 * there NCCL may connect, and no rank sends what another does not expect. The issuer's role is held meanwhile: no
 * bucket may get between the comparison and the call. From then on such a call only enqueues; that the calls came in
 * the same order is compared with every call that blocks, before every --check-every'th and the first one after a
 * comparison of parameters, which wait for all ranks too, and at the end.
 *
 * Device memory is reduced in place, in the order of the trainer's stream: an event leads to the communicator's stream,
 * and one back. Memory that the host may read or write at any moment goes through a buffer on the device, and the call
 * returns when the result is there.
 */
#include "interpose/engine/core/observer.h"
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

enum { STAGED_BYTES = 16 << 20 };

/* A call that is being made, for messages: DDP_REDUCE `sums` (main.c:50). */
#define MADE_FORMAT     "DDP_REDUCE `%s` (%s:%d)"
#define MADE(reduction) (reduction)->call.site->text, (reduction)->call.site->file, (reduction)->call.site->line

struct reduction {
    struct reduce_call call;
    CUdeviceptr address;
    enum memory_kind memory; /* MEMORY_DEVICE, MEMORY_MANAGED or MEMORY_HOST */
    size_t bytes;
    CUstream stream;
    uint64_t number;
    const struct reduce_kind *kind;
};

/* The issuer's, once the communicator is open. */
static struct {
    CUevent ready, done; /* what comes before a call on the trainer's stream; the result is there */
    CUdeviceptr staged;  /* STAGED_BYTES, or 0: no call has needed it */
    bool after_boundary; /* parameters were compared since the last call */
} own;

/* ---- what is asked for ---- */

static void
refuse_operation(const struct reduction *reduction)
{
    const struct reduce_call *call = &reduction->call;
    if (type_bytes(call->type) == 0)
        stop_job(MADE_FORMAT ": element type %d is invalid (enum ddp_type)", MADE(reduction), call->type);
    if (reduce_operation_name(call->op) == NULL)
        stop_job(MADE_FORMAT ": operation %d is invalid; use DDP_OP_SUM, DDP_OP_MEAN, DDP_OP_MIN or DDP_OP_MAX",
                 MADE(reduction), call->op);
    if (call->type == DDP_UINT8)
        stop_job(MADE_FORMAT ": elements of type %s are not reduced; use DDP_UINT32", MADE(reduction),
                 type_name(call->type));
    if (call->op == DDP_OP_MEAN && !type_is_of_gradients(call->type))
        stop_job(MADE_FORMAT ": elements of type %s have no mean; use DDP_OP_SUM and divide it by DDP_WORLD_SIZE()",
                 MADE(reduction), type_name(call->type));
    if (call->count > SIZE_MAX / type_bytes(call->type))
        stop_job(MADE_FORMAT ": %zu elements are not possible", MADE(reduction), call->count);
    if (call->count > 0 && reduction->address == 0)
        stop_job(MADE_FORMAT ": a null pointer", MADE(reduction));
}

/* ---- where it is ---- */

static void
refuse_host_range(const struct reduction *reduction, const struct memory_facts *facts)
{
    void *at = (void *)(uintptr_t)reduction->address;
    if (facts->type == 0 && !memory_is_usable(at, reduction->bytes, true))
        stop_job(MADE_FORMAT ": %zu bytes from %p on are not memory that this process can write", MADE(reduction),
                 reduction->bytes, at);
}

static void
refuse_context(const struct reduction *reduction, const struct memory_facts *facts)
{
    static _Atomic(CUcontext) known;
    if (facts->device != engine_state.device)
        stop_job(MADE_FORMAT ": memory of device %d, and this rank uses device %d; a rank uses one device",
                 MADE(reduction), facts->device, engine_state.device);
    if (facts->context == NULL || facts->context == atomic_load(&known))
        return;
    if (!context_is_primary(facts->context, facts->device))
        stop_job(MADE_FORMAT ": memory of " CONTEXT_FOREIGN, MADE(reduction));
    atomic_store(&known, facts->context);
}

/* Finds out what memory it is, and makes its context the engine's if there is none yet. */
static void
look_at_memory(struct reduction *reduction)
{
    if (reduction->call.count == 0)
        return;
    struct memory_facts facts = device_ask_about(reduction->address);
    reduction->memory = device_kind_of(&facts);
    reduction->call.on_host = reduction->memory != MEMORY_DEVICE;
    if (facts.begin != 0 && reduction->address + reduction->bytes > facts.begin + facts.bytes) {
        if (!LOCKED(allocations_cover(reduction->address, reduction->bytes, MEMORY_MAPPED)))
            stop_job(MADE_FORMAT ": %zu bytes, but the allocation ends after %zu; check count and type",
                     MADE(reduction), reduction->bytes, (size_t)(facts.begin + facts.bytes - reduction->address));
    }
    if (reduction->call.on_host) {
        refuse_host_range(reduction, &facts);
        return;
    }
    (void)device_adopt_context(facts.context, facts.device);
    refuse_context(reduction, &facts);
}

/* The buffer that host memory goes through. */
static void
ensure_staged(const struct reduction *reduction)
{
    if (own.staged != 0)
        return;
    device_adopt_any();
    CUcontext before = context_enter();
    own.staged = device_allocate(STAGED_BYTES, "cuMemAlloc for DDP_REDUCE");
    struct memory_facts facts = device_ask_about(own.staged);
    context_leave(before);
    (void)device_adopt_context(facts.context, facts.device);
    refuse_context(reduction, &facts);
}

/* Ends the job where DDP_STEP averages the memory, too. Work on other annotated memory is waited for where that is
 * compared. */
static void
look_at_annotations(const struct reduction *reduction)
{
    size_t count;
    bool tracked = false;
    struct tensor gradient = {.role = TENSOR_PARAMETER};
    engine_lock();
    const struct range *range = ranges_find(&memory_state.ranges, reduction->address, reduction->bytes, &count);
    for (size_t i = 0; i < count; ++i) {
        const struct tensor *tensor = tensor_of_range(&range[i]);
        tracked = true;
        if (tensor->role == TENSOR_GRADIENT)
            gradient = *tensor;
    }
    engine_unlock();
    if (gradient.role == TENSOR_GRADIENT)
        stop_job(MADE_FORMAT ": DDP_STEP averages this memory, %s; leave out one of the two", MADE(reduction),
                 tensor_text(&gradient));
    if (!tracked || reduction->call.on_host)
        return;
    device_ensure_events();
    engine_lock();
    memory_state.buffer_streams |= UINT64_C(1) << stream_index(reduction->stream);
    engine_unlock();
}

/* ---- do all ranks make the same call? ---- */

/* What a rank says of itself where ranks compare a call. */
struct said {
    uint64_t words[REDUCE_WORDS];
    uint64_t early[GROUPS_AT_MOST]; /* buckets of each group that have left before their boundary */
};

/* The issuer waits for all ranks, and ends the job if one of them is not at a comparison of that name, or has made
 * other calls. Where ranks have launched different numbers of buckets, all of them launch the rest: the device may be
 * waited for afterwards. */
static void
compare(const char *about) BY_ISSUER
{
    struct said mine;
    struct control_messages all;
    reduce_calls_say(mine.words);
    issuer_lock();
    for (int g = 0; g < GROUPS_AT_MOST; ++g)
        mine.early[g] = memory_state.groups[g].early_buckets;
    issuer_unlock();
    exchange_in_step(about, &mine, sizeof(mine), &all);
    reduce_calls_compare(&all, offsetof(struct said, words));
    bool same = true;
    for (int r = 0; r < all.count; ++r)
        same = same && memcmp(((const struct said *)all.messages[r])->early, mine.early, sizeof(mine.early)) == 0;
    control_free_messages(&all);
    if (!same)
        launch_rest(ISSUER_LOCKED(memory_state.expected_group));
}

/* At the same calls on all ranks: whether the number is one at which they are compared. */
static bool
is_due(uint64_t number)
{
    uint64_t every = engine_state.options.verify ? 1 : engine_state.options.check_every;
    return every > 0 && number % every == 0;
}

void
reduce_compare_at_boundary(void)
{
    own.after_boundary = true;
}

/* Before this call, where it waits anyway or a comparison is due. */
static void
compare_before(const struct reduction *reduction, bool first) BY_ISSUER
{
    bool due = own.after_boundary || is_due(reduction->number);
    own.after_boundary = false;
    if (first || reduction->call.on_host || (own.ready == NULL && reduction->call.count > 0))
        compare(reduction->kind->text);
    else if (due)
        compare("the comparison of DDP_REDUCE calls");
}

/* ---- sending ---- */

/* The issuer: opens what all calls go through. Collective. To start, NCCL may wait for the device: no bucket is on its
 * way meanwhile. */
static void
open_program_stream(void) BY_ISSUER
{
    if (own.ready != NULL)
        return;
    streams_wait_for_buckets();
    device_open_program_communicator();
    CUDA("cuEventCreate", cuEventCreate, &own.done, CU_EVENT_DISABLE_TIMING);
    CUDA("cuEventCreate", cuEventCreate, &own.ready, CU_EVENT_DISABLE_TIMING);
}

static void
send(const struct reduction *reduction, CUdeviceptr address, size_t count) BY_ISSUER
{
    static const ncclRedOp_t operations[] = {
        [DDP_OP_SUM] = ncclSum, [DDP_OP_MEAN] = ncclAvg, [DDP_OP_MIN] = ncclMin, [DDP_OP_MAX] = ncclMax};
    struct comm_error error;
    inflight_sending(reduction->kind->text, reduction->number, COMMUNICATOR_PROGRAM);
    if (!collectives_reduce_program(&engine_state.collectives, address, count, type_nccl(reduction->call.type),
                                    operations[reduction->call.op], &error))
        stop_job_by(error.cause, MADE_FORMAT ": %s", MADE(reduction), error.text);
    inflight_sent(reduction->kind->text, reduction->number, COMMUNICATOR_PROGRAM);
}

static void
reduce_in_place(const struct reduction *reduction) BY_ISSUER
{
    CUstream stream = engine_state.collectives.communicators[COMMUNICATOR_PROGRAM].stream;
    stream_record(reduction->stream, own.ready, "cuEventRecord before DDP_REDUCE");
    CUDA("waiting for what is reduced", cuStreamWaitEvent, stream, own.ready, 0);
    send(reduction, reduction->address, reduction->call.count);
    CUDA("cuEventRecord after DDP_REDUCE", cuEventRecord, own.done, stream);
    CUDA("waiting for DDP_REDUCE", cuStreamWaitEvent, reduction->stream, own.done, 0);
}

static void
reduce_staged(const struct reduction *reduction) BY_ISSUER
{
    CUstream stream = engine_state.collectives.communicators[COMMUNICATOR_PROGRAM].stream;
    size_t element = type_bytes(reduction->call.type), most = STAGED_BYTES / element;
    context_synchronize("at a DDP_REDUCE of memory that the host may write"); /* it is as all streams leave it */
    for (size_t first = 0; first < reduction->call.count; first += most) {
        size_t left = reduction->call.count - first, count = left < most ? left : most;
        void *host = (void *)(uintptr_t)(reduction->address + first * element);
        CUDA("copying for DDP_REDUCE", cuMemcpyHtoDAsync, own.staged, host, count * element, stream);
        send(reduction, own.staged, count);
        CUDA("copying for DDP_REDUCE", cuMemcpyDtoHAsync, host, own.staged, count * element, stream);
    }
    CUDA("waiting for DDP_REDUCE", cuStreamSynchronize, stream);
}

/* ---- the call ---- */

/* For the launcher. */
static void
note(const struct reduction *reduction)
{
    atomic_store(&engine_state.status->reduce_count, reduction->number);
    atomic_fetch_add(&engine_state.status->reduce_bytes, reduction->bytes);
    flight_note_site(FLIGHT_REDUCE, reduction->number, reduction->call.site);
}

static void
reduce_together(struct reduction *reduction)
{
    role_take();
    bool first = reduce_calls_add(&reduction->call, &reduction->number, &reduction->kind);
    note(reduction);
    compare_before(reduction, first);
    if (reduction->call.count > 0 && !atomic_load(&engine_state.collectives_ready)) { /* so no bucket ever was */
        role_give();
        device_ensure_collectives();
        role_take();
    }
    if (reduction->call.count > 0) {
        open_program_stream();
        range_begin("%s", reduction->kind->text);
        TRACED(trace_reduce(reduction->number, reduction->kind->text, reduction->bytes));
        if (reduction->call.on_host)
            reduce_staged(reduction);
        else
            reduce_in_place(reduction);
        range_end();
    }
    role_give();
    launch_ready(); /* buckets may have been ready all the while */
}

/* In a world of one it is looked at only, by an observer. */
static void
reduce_on_device(struct reduction *reduction)
{
    const struct ddp_site *site = reduction->call.site;
    bool alone = engine_state.rendezvous.world_size == 1;
    device_refuse_after_reset("DDP_REDUCE", site);
    device_ensure_driver(site);
    RELAX_CAPTURES();
    look_at_memory(reduction);
    if (reduction->call.on_host && !alone)
        ensure_staged(reduction);
    CUcontext before = context_enter();
    const struct observed_reduction observed = {reduction->address, reduction->memory, reduction->bytes,
                                                &reduction->call};
    context_require(reduction->stream, before, "DDP_REDUCE", site);
    if (reduction->call.count > 0 && stream_is_captured(reduction->stream))
        stop_job(MADE_FORMAT ": the stream is being captured into a CUDA graph, and a reduction in a graph is not "
                             "served; call it outside of the capture",
                 MADE(reduction));
    OBSERVED(reduce_begins, &observed, reduction->stream);
    if (!alone) {
        look_at_annotations(reduction);
        reduce_together(reduction);
    }
    OBSERVED(reduce_ends, &observed, reduction->stream);
    context_leave(before);
}

void
reduce_memory(void *ptr, size_t count, int type, int op, void *stream, const struct ddp_site *site)
{
    static atomic_flag reducing = ATOMIC_FLAG_INIT;
    struct reduction reduction = {.call = {.count = count, .type = type, .op = op, .site = site},
                                  .address = (CUdeviceptr)(uintptr_t)ptr,
                                  .bytes = count * type_bytes(type),
                                  .stream = stream};
    refuse_operation(&reduction);
    forgotten_reduced(reduction.address, reduction.bytes);
    if (atomic_flag_test_and_set(&reducing))
        stop_job(MADE_FORMAT ": another thread is in DDP_REDUCE; all ranks must make the calls in the same order, so "
                             "they come from one thread at a time",
                 MADE(&reduction));
    if (engine_state.rendezvous.world_size == 1) {
        reduction.number = atomic_load(&engine_state.status->reduce_count) + 1;
        note(&reduction);
    }
    if (engine_state.rendezvous.world_size > 1 || engine_state.observer != NULL)
        reduce_on_device(&reduction);
    atomic_flag_clear(&reducing);
}

/*
 * bucket_launch.c - sends buckets, in the plan's order, from whichever thread made one ready.
 *
 * One thread at a time has the role of the issuer; a thread that finds it taken leaves, and the issuer sees its bucket
 * in the next round. All order between backward, reduction and optimizer is by events on the device: the host waits for
 * nothing.
 */
#include "interpose/engine/core/observer.h"
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/send/send.h"

#include "base/message.h"

enum { STAGED_MULTIPLE = 512 }; /* as cudaMalloc aligns */

/* With lock held: the streams that touched the gradients of a bucket, which leaves early, since the group's last
 * boundary. */
static uint64_t
streams_of_bucket(const struct group *group, size_t bucket) WITH_LOCK
{
    ASSERT(group->readiness.plan == group->plan);
    const struct plan_bucket *of = &group->plan->buckets[bucket];
    uint64_t mask = group->opaque_streams;
    for (size_t i = of->first; i < of->first + of->count; ++i) {
        const struct tensor *tensor = tensor_gradient(group, group->plan->pieces[i].gradient);
        ASSERT(!tensor_is_shared(tensor));
        mask |= tensor->touched_by;
    }
    return mask;
}

/* ---- wires: where a plan's buckets are in memory ---- */

static int
compare_places(const void *a, const void *b, void *pieces)
{
    size_t left = ((const struct plan_piece *)pieces)[*(const size_t *)a].gradient;
    size_t right = ((const struct plan_piece *)pieces)[*(const size_t *)b].gradient;
    return left < right ? -1 : left > right;
}

/*
 * Members are sent in the order of their annotations. It must not depend on where they are in memory, for ranks may
 * have allocated in another order; and it often is that of memory, so that a flat buffer is sent in place, although
 * backward fills it from its end.
 */
static void
order_members(struct shipment *shipment)
{
    const struct plan *plan = shipment->plan;
    free(shipment->send_order);
    shipment->send_order = engine_calloc(plan->piece_count + 1, sizeof(shipment->send_order[0]));
    for (size_t i = 0; i < plan->piece_count; ++i)
        shipment->send_order[i] = i;
    for (size_t k = 0; k < plan->bucket_count; ++k)
        qsort_r(shipment->send_order + plan->buckets[k].first, plan->buckets[k].count, sizeof(shipment->send_order[0]),
                compare_places, plan->pieces);
}

static void
make_wires(struct shipment *shipment)
{
    shipment->wire_count = shipment->plan->bucket_count;
    shipment->wires = engine_calloc(shipment->wire_count + 1, sizeof(shipment->wires[0]));
    order_members(shipment);
}

/* Where the pieces of a bucket are now; malloc'ed. If one of them has no memory: NULL, or it ends the job. */
static struct bucket_member *
members_of(const struct shipment *shipment, const size_t *places, size_t bucket, bool may_be_missing)
{
    const struct plan_bucket *of = &shipment->plan->buckets[bucket];
    struct bucket_member *members = engine_calloc(of->count, sizeof(*members));

    engine_lock();
    struct tensor missing = {.placed = true};
    for (size_t i = 0; i < of->count; ++i) {
        const struct plan_piece *piece = &shipment->plan->pieces[shipment->send_order[of->first + i]];
        const struct tensor *tensor = &memory_state.tensors[places[piece->gradient]];
        members[i] = (struct bucket_member){tensor_on_device(tensor) + piece->first_byte, piece->bytes,
                                            tensor->kind == MEMORY_MANAGED};
        if (!tensor->placed)
            missing = *tensor;
    }
    engine_unlock();
    if (missing.placed)
        return members;
    if (!may_be_missing)
        tensor_refuse_freed(&missing);
    free(members);
    return NULL;
}

static void
place_wire(const struct shipment *shipment, size_t bucket, const struct bucket_member *members)
{
    const struct plan_bucket *of = &shipment->plan->buckets[bucket];
    struct bucket_wire *wire = &shipment->wires[bucket];
    int type = escape_bucket_type(of);
    struct comm_error error;
    RELAX_CAPTURES(); /* it may allocate */
    if (!collectives_place(&engine_state.collectives, wire, members, of->count, type_nccl(type), &error))
        stop_job("%s", error.text);
}

/* Gradients may have been allocated elsewhere since the bucket was last sent, or not at all until now. */
static void
follow_memory(const struct shipment *shipment, const size_t *places, size_t bucket)
{
    struct bucket_member *members = members_of(shipment, places, bucket, false);
    if (!wire_has(&shipment->wires[bucket], members, shipment->plan->buckets[bucket].count))
        place_wire(shipment, bucket, members);
    free(members);
}

/* ---- memory of NCCL's own ---- */

/* Bytes of the bucket if it is packed on this rank as memory is now, in steps of what kernels like; else 0. */
static uint64_t
packed_bytes(const struct shipment *shipment, const size_t *places, size_t bucket)
{
    const struct plan_bucket *of = &shipment->plan->buckets[bucket];
    struct bucket_member *members = members_of(shipment, places, bucket, true);
    size_t bytes = 0;
    bool packed = members != NULL && wire_is_packed(&engine_state.collectives.setting, members, of->count,
                                                    type_nccl(escape_bucket_type(of)), &bytes);
    free(members);
    return packed ? (bytes + STAGED_MULTIPLE - 1) / STAGED_MULTIPLE * STAGED_MULTIPLE : 0;
}

/* The same of all its buckets, as the least that a rank says; malloc'ed. Their sum in *total_p; *alike_p becomes false
 * where this rank packs more than that. */
static uint64_t *
packed_by_all(const struct shipment *shipment, const size_t *places, uint64_t *total_p, bool *alike_p)
{
    uint64_t *bytes = engine_calloc(shipment->wire_count + 1, sizeof(*bytes));
    uint64_t own = 0;
    for (size_t k = 0; k < shipment->wire_count; ++k)
        own += bytes[k] = packed_bytes(shipment, places, k);
    least_of_ranks("memory for buckets", bytes, shipment->wire_count);
    *total_p = 0;
    for (size_t k = 0; k < shipment->wire_count; ++k)
        *total_p += bytes[k];
    *alike_p = *alike_p && own == *total_p;
    return bytes;
}

/* Collective: so much memory for packed buckets, on all ranks or on none. */
static bool
stage(struct staging *staging, uint64_t bytes)
{
    struct collectives *collectives = &engine_state.collectives;
    CUstreamCaptureMode mode = context_exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    collectives_unstage(collectives, staging);
    uint64_t staged = collectives_stage(collectives, bytes, staging);
    least_of_ranks("memory for buckets", &staged, 1);
    if (!staged)
        collectives_unstage(collectives, staging);
    (void)context_exchange_capture_mode(mode);
    return staged != 0;
}

static void
lend(struct shipment *shipment, const uint64_t *bytes, CUdeviceptr at)
{
    for (size_t k = 0; k < shipment->wire_count; at += bytes[k++]) {
        if (bytes[k] > 0)
            wire_lend(&shipment->wires[k], at, bytes[k]);
    }
}

/*
 * Buckets that all ranks pack are packed into memory that NCCL knows, and stay packed, wherever gradients go later: a
 * collective must not have registered memory on some ranks only. The same calls on all ranks.
 */
static void
stage_buckets(struct group *group) BY_ISSUER
{
    struct shipment *shipment = &group->shipment;
    bool alike = true;
    uint64_t total, *bytes = packed_by_all(shipment, group->places, &total, &alike);
    if (total <= shipment->staging.bytes || stage(&shipment->staging, total))
        lend(shipment, bytes, shipment->staging.address);
    free(bytes);
}

/* Events are kept from plan to plan, and only ever added. */
static void
make_events(struct group *group, size_t count) BY_ISSUER
{
    if (count <= group->done_capacity)
        return;
    group->bucket_done = engine_realloc(group->bucket_done, count * sizeof(*group->bucket_done));
    for (size_t k = group->done_capacity; k < count; ++k)
        CUDA("cuEventCreate", cuEventCreate, &group->bucket_done[k], CU_EVENT_DISABLE_TIMING);
    group->done_capacity = count;
}

/* Said once, by rank 0: what the user's numbers go through. */
static void
say_compression(void)
{
    static bool said;
    enum ddprun_compression compression = engine_state.options.compression;
    if (compression == DDPRUN_COMPRESS_NONE || said || engine_state.rendezvous.rank != 0)
        return;
    said = true;
    uint64_t narrowed = 0, others = 0;
    engine_lock();
    for (const struct tensor *tensor = NULL; (tensor = tensor_next(tensor)) != NULL;) {
        if (tensor->role == TENSOR_GRADIENT)
            *(type_nccl(tensor->type) == ncclFloat32 ? &narrowed : &others) += tensor->bytes;
    }
    engine_unlock();
    int world_size = engine_state.rendezvous.world_size;
    char unchanged[64] = "";
    if (others > 0)
        snprintf(unchanged, sizeof(unchanged), "; %.1f KiB of other types are sent unchanged", (double)others / 1024);
    bool is_half = compression == DDPRUN_COMPRESS_FP16;
    message_line(
        "--compress: %.1f KiB of float32 gradients per step are sent as %s, divided by %d first. Each mean is off "
        "by at most %d/%d of the ranks' mean magnitude%s%s",
        (double)narrowed / 1024, is_half ? "float16" : "bfloat16", world_size, world_size, is_half ? 2048 : 256,
        is_half ? " and 3e-8 per rank" : "", unchanged);
}

static void
free_wires(struct shipment *shipment)
{
    for (size_t k = 0; k < shipment->wire_count; ++k)
        wire_free(&shipment->wires[k], &engine_state.driver);
    free(shipment->wires);
    shipment->wires = NULL;
    shipment->wire_count = 0;
}

void
issue_prepare_plan(struct group *group)
{
    struct shipment *shipment = &group->shipment;
    streams_wait_for_buckets();
    free_wires(shipment);
    shipment->plan = group->plan;
    make_wires(shipment); /* filled when they are first sent */
    stage_buckets(group);
    make_events(group, group->plan->bucket_count);
    TRACED(trace_plan(group));
    say_compression();
}

/* Whether memory for a while would leave the program an eighth of the device's, for what it may allocate meanwhile. */
static bool
is_memory_spare(uint64_t bytes)
{
    size_t free_bytes = 0, all_bytes = 0;
    bool known = engine_state.driver.cuMemGetInfo_p(&free_bytes, &all_bytes) == CUDA_SUCCESS;
    return known && free_bytes >= all_bytes / 8 && bytes <= free_bytes - all_bytes / 8;
}

bool
issue_prepare_others(struct group *group, struct shipment *others, size_t count)
{
    uint64_t *bytes[OTHERS_AT_MOST] = {0}, total = 0, most = 0;
    bool alike = true;
    streams_wait_for_buckets();
    for (size_t i = 0; i < count; ++i) {
        make_wires(&others[i]);
        make_events(group, others[i].wire_count);
        TRACED(trace_make_room(group, others[i].wire_count));
        bytes[i] = packed_by_all(&others[i], group->places, &total, &alike);
        most = total > most ? total : most;
    }
    uint64_t good = alike && is_memory_spare(most); /* else buckets would need memory of their own */
    least_of_ranks("memory for buckets", &good, 1);
    good = good && (most == 0 || stage(&others[0].staging, most));
    for (size_t i = 0; i < count; ++i) {
        if (good)
            lend(&others[i], bytes[i], others[0].staging.address);
        free(bytes[i]);
    }
    if (!good)
        issue_free_others(others, count);
    return good != 0;
}

void
issue_free_others(struct shipment *others, size_t count)
{
    streams_wait_for_buckets();
    for (size_t i = 0; i < count; ++i) {
        free_wires(&others[i]);
        free(others[i].send_order);
        others[i].send_order = NULL;
    }
    collectives_unstage(&engine_state.collectives, &others[0].staging);
}

void
issue_prepare_captured(struct shipment *shipment, const size_t *places)
{
    make_wires(shipment);
    for (size_t k = 0; k < shipment->wire_count; ++k)
        follow_memory(shipment, places, k);
    say_compression();
}

/* ---- sending ---- */

void
issue_bucket(struct group *group, size_t bucket, bool early)
{
    struct comm_error error;
    unsigned watching = atomic_load_explicit(&engine_state.watching, memory_order_relaxed);
    ASSERT(group->shipment.plan == group->plan && bucket < group->shipment.wire_count);
    ASSERT(bucket < group->done_capacity);
    follow_memory(&group->shipment, group->places, bucket);
    const struct weight weight = weight_of(group);
    const double factor = weight_factor(&weight);
    WATCHED(watching, bucket_begins, group, bucket, early);
    inflight_sending("bucket", bucket, COMMUNICATOR_ENGINE);
    if (!collectives_reduce(&engine_state.collectives, &group->shipment.wires[bucket], factor, first_stream(), &error))
        stop_job_by(error.cause, "bucket %zu of step %llu: %s", bucket,
                    (unsigned long long)engine_state.boundary_count + 1, error.text);
    CUDA("cuEventRecord after a bucket", cuEventRecord, group->bucket_done[bucket], first_stream());
    inflight_sent("bucket", bucket, COMMUNICATOR_ENGINE);
    flight_note(FLIGHT_BUCKET, bucket, group->plan->buckets[bucket].bytes, early ? "early" : "at DDP_STEP");
    WATCHED(watching, bucket_ends, group, bucket, early);
}

/* With lock held: the one group that may send before its boundary, if it does; else NULL. */
static struct group *
group_that_sends(void) WITH_LOCK
{
    const bool *holds = engine_state.services->holds;
    if (memory_state.expected_group == SEQUENCE_NONE || memory_state.no_sync || (engine_state.off & OFF_EARLY) != 0 ||
        (holds != NULL && __atomic_load_n(holds, __ATOMIC_ACQUIRE)))
        return NULL;
    struct group *group = &memory_state.groups[memory_state.expected_group];
    if (group->weighed < group->weighed_before) /* a bucket of gradients without work would leave before its weight */
        return NULL;
    return group->overlapping ? group : NULL;
}

void
issue_ready(void)
{
    engine_lock();
    if (engine_state.issuing) {
        engine_unlock();
        return;
    }
    engine_state.issuing = true;
    capability_take(&issuer_role);
    capability_give(&group_fields);
    capability_take(&group_fields);
    struct group *group = group_that_sends(); /* only the issuer changes it, at a boundary */
    size_t bucket;
    while (group != NULL && group->overlapping && !memory_state.no_sync &&
           readiness_launch(&group->readiness, &bucket)) {
        uint64_t mask = streams_of_bucket(group, bucket);
        ++group->early_buckets;
        ASSERT(group->id == memory_state.expected_group && group->early_buckets == group->readiness.next_bucket);
        issuer_unlock();
        WATCHED(atomic_load(&engine_state.watching), bucket_ready, group, bucket, mask);
        streams_wait_for_producers(mask, first_stream());
        issue_bucket(group, bucket, true);
        issuer_lock();
    }
    engine_state.issuing = false;
    pthread_cond_broadcast(&engine_state.role_free);
    capability_give(&issuer_role);
    capability_give(&group_fields);
    capability_share(&group_fields);
    engine_unlock();
}

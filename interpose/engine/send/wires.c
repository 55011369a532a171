/*
 * wires.c - where a plan's buckets are in memory: on this rank, and in what order their members are sent.
 *
 * Each bucket has a wire for boundaries, which sends it where its members lie, if they are neighbours. A bucket that
 * may be launched before its boundary has another, which packs it into memory of the engine's: there it is reduced, and
 * its members keep this rank's values until all ranks know that the guess was right (speculation.c). The packed copies
 * of all buckets are one piece of memory, agreed on by all ranks: an eighth of the device stays free, and the largest
 * buckets do without.
 */
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/send/send.h"

#include "base/message.h"

enum { PACKED_MULTIPLE = 512 };           /* as cudaMalloc aligns */
enum { PADDING = 128 * PACKED_MULTIPLE }; /* of layouts with more buckets than the plan's */

/* ---- members ---- */

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
    shipment->speculations = engine_calloc(shipment->wire_count + 1, sizeof(shipment->speculations[0]));
    order_members(shipment);
}

static void
free_wires(struct shipment *shipment)
{
    for (size_t k = 0; k < shipment->wire_count; ++k) {
        wire_free(&shipment->wires[k], &engine_state.driver);
        wire_free(&shipment->speculations[k].wire, &engine_state.driver);
    }
    free(shipment->wires);
    free(shipment->speculations);
    shipment->wires = NULL;
    shipment->speculations = NULL;
    shipment->wire_count = 0;
}

/* Where the pieces of a bucket are now; malloc'ed. One that has no memory is put into *missing_p; else that is
 * placed. */
static struct bucket_member *
list_members(const struct shipment *shipment, const size_t *places, size_t bucket, struct tensor *missing_p)
{
    const struct plan_bucket *of = &shipment->plan->buckets[bucket];
    struct bucket_member *members = engine_calloc(of->count, sizeof(*members));

    *missing_p = (struct tensor){.placed = true};
    engine_lock();
    for (size_t i = 0; i < of->count; ++i) {
        const struct plan_piece *piece = &shipment->plan->pieces[shipment->send_order[of->first + i]];
        const struct tensor *tensor = &memory_state.tensors[places[piece->gradient]];
        members[i] = (struct bucket_member){tensor_on_device(tensor) + piece->first_byte, piece->bytes,
                                            tensor->kind == MEMORY_MANAGED};
        if (!tensor->placed)
            *missing_p = *tensor;
    }
    engine_unlock();
    return members;
}

static void
place_wire(const struct shipment *shipment, struct bucket_wire *wire, size_t bucket,
           const struct bucket_member *members)
{
    const struct plan_bucket *of = &shipment->plan->buckets[bucket];
    struct comm_error error;
    RELAX_CAPTURES(); /* it may allocate */
    if (!collectives_place(&engine_state.collectives, wire, members, of->count, type_nccl(escape_bucket_type(of)),
                           &error))
        stop_job("%s", error.text);
}

bool
wires_follow(const struct shipment *shipment, const size_t *places, size_t bucket, struct bucket_wire *wire)
{
    struct tensor missing;
    struct bucket_member *members = list_members(shipment, places, bucket, &missing);
    if (!missing.placed)
        tensor_refuse_freed(&missing);
    bool has_moved = !wire_has(wire, members, shipment->plan->buckets[bucket].count);
    if (has_moved)
        place_wire(shipment, wire, bucket, members);
    free(members);
    return has_moved;
}

bool
wires_stand(const struct shipment *shipment, const size_t *places, size_t bucket, const struct bucket_wire *wire)
{
    struct tensor missing;
    struct bucket_member *members = list_members(shipment, places, bucket, &missing);
    bool stands = missing.placed && wire_has(wire, members, shipment->plan->buckets[bucket].count);
    free(members);
    return stands;
}

bool
wires_have_memory(const struct shipment *shipment, const size_t *places, size_t bucket)
{
    struct tensor missing;
    free(list_members(shipment, places, bucket, &missing));
    return missing.placed;
}

void
wires_ensure_placed(const struct shipment *shipment, const size_t *places, size_t bucket, struct bucket_wire *wire)
{
    struct tensor missing;
    if (wire->members != NULL)
        return;
    struct bucket_member *members = list_members(shipment, places, bucket, &missing);
    place_wire(shipment, wire, bucket, members);
    free(members);
}

/* ---- memory of packed buckets ---- */

/* Of a packed bucket, in steps of what kernels like; the same on all ranks. */
static uint64_t
packed_bytes(const struct shipment *shipment, size_t bucket)
{
    const struct plan_bucket *of = &shipment->plan->buckets[bucket];
    const struct bucket_member all = {.bytes = of->bytes};
    size_t bytes = 0;
    (void)wire_is_packed(&engine_state.collectives.setting, &all, 1, type_nccl(escape_bucket_type(of)), &bytes);
    return (bytes + PACKED_MULTIPLE - 1) / PACKED_MULTIPLE * PACKED_MULTIPLE;
}

/* Which buckets may be launched before their boundary; their bytes, without those that do not fit into `budget`: the
 * largest do without. */
static uint64_t
allow(const struct shipment *shipment, uint64_t budget)
{
    uint64_t total = 0;
    for (size_t k = 0; k < shipment->wire_count; ++k) {
        shipment->speculations[k].is_allowed = !escape_bucket_is_deferred(&shipment->plan->buckets[k]);
        total += shipment->speculations[k].is_allowed ? packed_bytes(shipment, k) : 0;
    }
    while (total > budget) {
        size_t largest = shipment->wire_count;
        for (size_t k = 0; k < shipment->wire_count; ++k) {
            bool is_larger =
                largest == shipment->wire_count || packed_bytes(shipment, k) > packed_bytes(shipment, largest);
            if (shipment->speculations[k].is_allowed && is_larger)
                largest = k;
        }
        shipment->speculations[largest].is_allowed = false;
        total -= packed_bytes(shipment, largest);
    }
    return total;
}

/* Wires get their parts of `packed`: those for boundaries, too, where they have to pack. Of a bucket only one of the
 * two is on its way. */
static void
lend(const struct shipment *shipment)
{
    CUdeviceptr at = shipment->packed;
    for (size_t k = 0; k < shipment->wire_count; ++k) {
        uint64_t bytes = packed_bytes(shipment, k);
        if (!shipment->speculations[k].is_allowed)
            continue;
        wire_lend(&shipment->speculations[k].wire, at, bytes, true);
        wire_lend(&shipment->wires[k], at, bytes, false);
        at += bytes;
    }
    ASSERT(at <= shipment->packed + shipment->packed_bytes);
}

static void
release_packed(struct shipment *shipment)
{
    if (shipment->owns_packed)
        (void)engine_state.driver.cuMemFree_p(shipment->packed);
    shipment->packed = 0;
    shipment->packed_bytes = 0;
    shipment->owns_packed = false;
}

/* What an eighth of the device's memory leaves, for what the program may still allocate. */
static uint64_t
spare_bytes(void)
{
    size_t free_bytes = 0, all_bytes = 0;
    bool known = engine_state.driver.cuMemGetInfo_p(&free_bytes, &all_bytes) == CUDA_SUCCESS;
    return known && free_bytes > all_bytes / 8 ? free_bytes - all_bytes / 8 : 0;
}

/* Said once, by rank 0. */
static void
say_without_memory(uint64_t wanted, uint64_t got)
{
    static bool said;
    if (got == wanted || said || engine_state.rendezvous.rank != 0)
        return;
    said = true;
    message_warning("without_memory",
                    "copies of gradients that are averaged during backward need %.1f MiB, and %.1f MiB leave an eighth "
                    "of the device free on all ranks: buckets of %.1f MiB are averaged at DDP_STEP",
                    (double)wanted / (1 << 20), (double)got / (1 << 20), (double)(wanted - got) / (1 << 20));
}

/* Collective: memory for the packed buckets of the shipment, as much as all ranks can spare. */
static void
make_room(struct shipment *shipment)
{
    uint64_t wanted = allow(shipment, UINT64_MAX);
    if (wanted <= shipment->packed_bytes)
        return;
    release_packed(shipment);
    uint64_t spare = spare_bytes();
    least_of_ranks("memory for buckets", &spare, 1);
    uint64_t bytes = allow(shipment, spare), room = bytes > 0 ? bytes + PADDING : 0;
    CUdeviceptr memory = 0;
    RELAX_CAPTURES();
    uint64_t good = room == 0 || engine_state.driver.cuMemAlloc_p(&memory, room) == CUDA_SUCCESS;
    least_of_ranks("memory for buckets", &good, 1);
    if (good == 0 && memory != 0)
        (void)engine_state.driver.cuMemFree_p(memory);
    if (good == 0)
        bytes = room = allow(shipment, 0);
    say_without_memory(wanted, bytes);
    shipment->packed = room > 0 ? memory : 0;
    shipment->packed_bytes = room;
    shipment->owns_packed = room > 0;
}

/* ---- plans ---- */

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
    for (const struct tensor *tensor = tensor_next(NULL); tensor != NULL; tensor = tensor_next(tensor)) {
        if (tensor->role != TENSOR_GRADIENT)
            continue;
        if (type_nccl(tensor->type) == ncclFloat32)
            narrowed += tensor->bytes;
        else
            others += tensor->bytes;
    }
    engine_unlock();
    if (narrowed == 0) {
        message_line("--compress: no gradient is of float32; %.1f KiB per step are sent in their own types",
                     (double)others / 1024);
        return;
    }
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

void
wires_mark_last(struct group *group)
{
    issuer_lock();
    for (size_t k = 0; k < group->shipment.wire_count; ++k) {
        if (!group->shipment.speculations[k].is_allowed)
            readiness_put_last(&group->readiness, k);
    }
    issuer_unlock();
}

void
wires_prepare_plan(struct group *group)
{
    struct shipment *shipment = &group->shipment;
    streams_wait_for_buckets();
    free_wires(shipment);
    shipment->plan = group->plan;
    make_wires(shipment); /* filled when they are first sent */
    if (group->overlapping && engine_state.collectives.setting.divides) {
        make_room(shipment);
        lend(shipment);
    }
    wires_mark_last(group);
    TRACED(trace_plan(group));
    say_compression();
}

void
wires_prepare_others(struct group *group, struct shipment *others, size_t count)
{
    const struct shipment *own = &group->shipment;
    streams_wait_for_buckets();
    for (size_t i = 0; i < count; ++i) {
        make_wires(&others[i]);
        others[i].packed = own->packed;
        others[i].packed_bytes = own->packed_bytes;
        (void)allow(&others[i], own->packed_bytes);
        lend(&others[i]);
        TRACED(trace_make_room(group, others[i].wire_count));
    }
}

void
wires_free_others(struct shipment *others, size_t count)
{
    streams_wait_for_buckets();
    for (size_t i = 0; i < count; ++i) {
        free_wires(&others[i]);
        free(others[i].send_order);
        others[i].send_order = NULL;
    }
}

void
wires_prepare_captured(struct shipment *shipment, const size_t *places)
{
    make_wires(shipment);
    for (size_t k = 0; k < shipment->wire_count; ++k)
        (void)wires_follow(shipment, places, k, &shipment->wires[k]);
    say_compression();
}

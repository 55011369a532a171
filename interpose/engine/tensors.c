/*
 * tensors.c - what the trainer has annotated: parameters and gradients, their memory and their identity.
 */
#include "interpose/engine/state.h"

#include "base/mutant.h"

#include <stdlib.h>
#include <string.h>

struct type_row {
    size_t bytes;
    const char *name;
    ncclDataType_t nccl;
};

static const struct type_row types[] = {
    [DDP_FLOAT32] = {4, "float32", ncclFloat32},
    [DDP_FLOAT64] = {8, "float64", ncclFloat64},
    [DDP_FLOAT16] = {2, "float16", ncclFloat16},
    [DDP_BFLOAT16] = {2, "bfloat16", ncclBfloat16},
};

static bool
is_type(int type)
{
    return type >= DDP_FLOAT32 && type <= DDP_BFLOAT16;
}

size_t
type_bytes(int type)
{
    return is_type(type) ? types[type].bytes : 0;
}

const char *
type_name(int type)
{
    return is_type(type) ? types[type].name : "of an unknown type";
}

ncclDataType_t
type_nccl(int type)
{
    return types[type].nccl;
}

struct tensor *
tensor_gradient(const struct group *group, size_t member)
{
    return &engine_state.tensors[group->places[member]];
}

/* With lock held: the gradients of a group, in the order of their annotation. */
static bool
index_group(struct group *group)
{
    size_t *places = realloc(group->places, (engine_state.gradient_count + 1) * sizeof(*places));
    if (places == NULL)
        return false;
    group->places = places;
    group->gradient_count = 0;
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        struct tensor *tensor = &engine_state.tensors[i];
        if (tensor->role != TENSOR_GRADIENT || tensor->group != group->id)
            continue;
        tensor->member = group->gradient_count;
        places[group->gradient_count++] = i;
    }
    if (group->gradient_count == 0)
        group->opaque_streams = group->hidden_streams = 0; /* no boundary of it will come */
    return true;
}

bool
tensor_index_gradients(void)
{
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        engine_state.groups[g].id = g;
        if (!index_group(&engine_state.groups[g]))
            return false;
    }
    return true;
}

void
tensor_choose_group(int id, const struct ddp_site *site)
{
    if (id < 0 || id >= GROUPS_AT_MOST)
        stop_job("DDP_GRADIENT_GROUP(%d) (%s:%d): groups are numbered 0 to %d", id, site->file, site->line,
                 GROUPS_AT_MOST - 1);
    pthread_mutex_lock(&engine_state.lock);
    engine_state.annotated_group = id;
    pthread_mutex_unlock(&engine_state.lock);
}

static const char *const macros[TENSOR_ROLES] = {
    [TENSOR_PARAMETER] = "DDP_PARAMETER", [TENSOR_GRADIENT] = "DDP_GRADIENT", [TENSOR_BUFFER] = "DDP_BUFFER"};

/* With lock held: how many there are. */
static size_t *
count_of(enum tensor_role role)
{
    size_t *const counts[TENSOR_ROLES] = {[TENSOR_PARAMETER] = &engine_state.parameter_count,
                                          [TENSOR_GRADIENT] = &engine_state.gradient_count,
                                          [TENSOR_BUFFER] = &engine_state.buffer_count};
    return counts[role];
}

/* What an annotation at `site` says, for messages. */
#define AT_FORMAT      "`%s` (%s:%d)"
#define AT(site)       (site)->text, (site)->file, (site)->line
#define MACRO_OF(role) (macros[role])

/* ---- is it device memory? ---- */

/* What the driver knows of an address. */
struct memory_facts {
    unsigned type; /* CUmemorytype; 0: no memory of the driver's */
    unsigned is_managed;
    int device;
    CUcontext context;
    CUdeviceptr begin; /* of the allocation */
    size_t bytes;
};

/* The driver decides, not a map of our own. */
static struct memory_facts
ask_about(CUdeviceptr address)
{
    struct memory_facts facts = {.type = 0};
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_CONTEXT,
                                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&facts.type, &facts.is_managed, &facts.device, &facts.context, &facts.begin, &facts.bytes};
    unsigned count = sizeof(attributes) / sizeof(attributes[0]);
    if (engine_state.driver.cuPointerGetAttributes_p(count, attributes, values, address) != CUDA_SUCCESS)
        facts.type = 0;
    return facts;
}

/* Ends the job if the range is not within one allocation of device memory of the one device that this rank uses. */
static void
require_device_memory(const struct tensor *tensor)
{
    agree_refuse_after_reset(MACRO_OF(tensor->role), &tensor->site);
    struct memory_facts facts = ask_about(tensor->address);
    if (facts.type != CU_MEMORYTYPE_DEVICE)
        stop_job("%s " AT_FORMAT ": %p is not device memory; annotate what cudaMalloc returned", MACRO_OF(tensor->role),
                 AT(&tensor->site), (void *)(uintptr_t)tensor->address);
    if (facts.is_managed)
        stop_job("%s " AT_FORMAT ": managed memory, which the host may write unseen; allocate it with cudaMalloc",
                 MACRO_OF(tensor->role), AT(&tensor->site));
    if (facts.begin != 0 && tensor->address + tensor->bytes > facts.begin + facts.bytes)
        stop_job("%s " AT_FORMAT ": %zu %s are %zu bytes, but the allocation ends after %zu; check the count",
                 MACRO_OF(tensor->role), AT(&tensor->site), tensor->count, type_name(tensor->type), tensor->bytes,
                 (size_t)(facts.begin + facts.bytes - tensor->address));

    pthread_mutex_lock(&engine_state.lock);
    bool is_first = engine_state.context == NULL;
    if (is_first) {
        engine_state.context = facts.context; /* NULL for pooled memory: then the annotating thread's */
        engine_state.device = facts.device;
    }
    int device = engine_state.device;
    pthread_mutex_unlock(&engine_state.lock);
    if (is_first && engine_state.context == NULL)
        require_cuda(engine_state.driver.cuCtxGetCurrent_p(&engine_state.context), "cuCtxGetCurrent");
    if (facts.device != device)
        stop_job("%s " AT_FORMAT ": on device %d, other annotations are on device %d; a rank uses one device",
                 MACRO_OF(tensor->role), AT(&tensor->site), facts.device, device);
}

static struct tensor
describe(enum tensor_role role, void *ptr, size_t count, int type, const struct ddp_site *site)
{
    if (!is_type(type))
        stop_job("%s " AT_FORMAT ": %d is no element type; use DDP_FLOAT32, DDP_FLOAT64, DDP_FLOAT16 or DDP_BFLOAT16",
                 MACRO_OF(role), AT(site), type);
    if (ptr == NULL || count == 0 || count > SIZE_MAX / type_bytes(type))
        stop_job("%s " AT_FORMAT ": %s", MACRO_OF(role), AT(site),
                 ptr == NULL ? "a null pointer; annotate after the allocation"
                             : "the count of elements is not possible");
    return (struct tensor){.role = role,
                           .placed = true,
                           .address = (CUdeviceptr)(uintptr_t)ptr,
                           .count = count,
                           .bytes = count * type_bytes(type),
                           .type = type,
                           .site = *site};
}

/* ---- the table; all with lock held ---- */

static void
update_bounds(void)
{
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        const struct tensor *tensor = &engine_state.tensors[i];
        if (tensor->role == TENSOR_PARAMETER || !tensor->placed)
            continue;
        lowest = tensor->address < lowest ? tensor->address : lowest;
        highest = tensor->address + tensor->bytes > highest ? tensor->address + tensor->bytes : highest;
    }
    atomic_store(&engine_state.lowest, lowest);
    atomic_store(&engine_state.highest, highest);
    miss_ranges_changed();
}

/* A tensor of the same role, group and shape whose memory is gone, in order of annotation; or a new one. NULL: no
 * memory. */
static struct tensor *
identity_for(const struct tensor *wanted)
{
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        bool backwards = MUTANT(IDENTITY_MIXED) && engine_state.rendezvous.rank % 2 == 1;
        struct tensor *tensor = &engine_state.tensors[backwards ? engine_state.tensor_count - 1 - i : i];
        if (!tensor->placed && tensor->role == wanted->role && tensor->count == wanted->count &&
            tensor->type == wanted->type && tensor->group == wanted->group)
            return tensor;
    }
    if (engine_state.tensor_count == engine_state.tensor_capacity) {
        size_t capacity = engine_state.tensor_capacity == 0 ? 64 : 2 * engine_state.tensor_capacity;
        struct tensor *grown = realloc(engine_state.tensors, capacity * sizeof(*grown));
        if (grown == NULL)
            return NULL;
        engine_state.tensors = grown;
        engine_state.tensor_capacity = capacity;
    }
    return &engine_state.tensors[engine_state.tensor_count];
}

enum placing { PLACED_NEW, PLACED_AGAIN, PLACED_BEFORE, PLACED_OVERLAP, PLACED_TOO_LATE, PLACED_NO_MEMORY };

/*
 * Enters the tensor. PLACED_BEFORE: the very same annotation stands already. PLACED_TOO_LATE: the gradient was averaged
 * in this step, where its memory was before. On an overlap, *other_p is in the way.
 */
static enum placing
place(struct tensor *wanted, struct tensor *other_p)
{
    struct range in_the_way;
    struct tensor *tensor = identity_for(wanted);
    if (tensor == NULL)
        return PLACED_NO_MEMORY;
    size_t at = (size_t)(tensor - engine_state.tensors);

    enum ranges_status status = ranges_add(&engine_state.ranges, wanted->address, wanted->bytes, at, &in_the_way);
    if (status == RANGES_NO_MEMORY)
        return PLACED_NO_MEMORY;
    if (status != RANGES_OK) {
        *other_p = engine_state.tensors[in_the_way.id];
        bool same = other_p->role == wanted->role && other_p->address == wanted->address &&
                    other_p->count == wanted->count && other_p->type == wanted->type && other_p->group == wanted->group;
        return same ? PLACED_BEFORE : PLACED_OVERLAP;
    }

    bool again = at < engine_state.tensor_count;
    if (again && issue_has_left(tensor))
        return PLACED_TOO_LATE;
    size_t *count = count_of(wanted->role);
    wanted->index = again ? tensor->index : *count;
    wanted->member = again ? tensor->member : 0;
    wanted->held = again && tensor->held;
    wanted->declared = again && tensor->declared;
    wanted->by_library = again && tensor->by_library;
    wanted->held_by_any = again && tensor->held_by_any;
    *tensor = *wanted;
    if (!again) {
        ++*count;
        ++engine_state.tensor_count;
    }
    if (!again && wanted->role != TENSOR_PARAMETER)
        agree_annotations_changed();
    engine_state.placements += wanted->role != TENSOR_PARAMETER;
    if (wanted->role != TENSOR_PARAMETER && !wanted->held && escape_has(wanted->address, wanted->bytes))
        escape_hold(&engine_state.tensors[at]);
    update_bounds();
    return again ? PLACED_AGAIN : PLACED_NEW;
}

/* What is annotated may not change while buckets of the old annotations are on their way. */
static void __attribute__((noreturn)) stop_too_late(const char *macro, const struct ddp_site *site)
{
    stop_job("%s " AT_FORMAT ": gradients of this step have been averaged already; call it right after DDP_STEP", macro,
             AT(site));
}

/* With lock held: whether buckets of any group have left and their boundary has not come. */
static bool
buckets_have_left(void)
{
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        if (engine_state.groups[g].early_buckets > 0)
            return true;
    }
    return false;
}

/* Enters it or ends the job. Returns whether anything changed. */
static bool
place_or_stop(struct tensor *tensor)
{
    struct tensor other;
    pthread_mutex_lock(&engine_state.lock);
    bool too_late = tensor->role != TENSOR_PARAMETER && buckets_have_left();
    if (tensor->role == TENSOR_GRADIENT)
        tensor->group = engine_state.annotated_group;
    enum placing placing = place(tensor, &other);
    pthread_mutex_unlock(&engine_state.lock);

    if ((placing == PLACED_NEW && too_late) || placing == PLACED_TOO_LATE)
        stop_too_late(MACRO_OF(tensor->role), &tensor->site);
    if (placing == PLACED_NO_MEMORY)
        stop_job("out of memory");
    if (placing == PLACED_OVERLAP)
        stop_job("%s " AT_FORMAT " overlaps %s " AT_FORMAT ": bytes %p to %p and %p to %p", MACRO_OF(tensor->role),
                 AT(&tensor->site), MACRO_OF(other.role), AT(&other.site), (void *)(uintptr_t)tensor->address,
                 (void *)(uintptr_t)(tensor->address + tensor->bytes), (void *)(uintptr_t)other.address,
                 (void *)(uintptr_t)(other.address + other.bytes));
    return placing != PLACED_BEFORE;
}

/* ---- annotations ---- */

/* All ranks take rank 0's values, now. */
static void
share_parameter(const struct tensor *tensor)
{
    /* Whatever initialises the parameter may be on any stream. */
    context_synchronize("at a DDP_PARAMETER");
    agree_on_parameter(tensor);
    agree_ensure_collectives();

    struct comm_error error;
    issue_take_role();
    if (!collectives_broadcast(&engine_state.collectives, tensor->address, tensor->bytes, &error))
        stop_job_by(error.cause, "DDP_PARAMETER " AT_FORMAT ": %s", AT(&tensor->site), error.text);
    issue_give_role();
}

void
tensor_annotate_parameter(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    agree_ensure_driver(site);
    struct tensor tensor = describe(TENSOR_PARAMETER, ptr, count, type, site);
    flight_note(FLIGHT_ANNOTATION, 0, tensor.bytes, site->text);
    require_device_memory(&tensor);
    bool changed = place_or_stop(&tensor);
    if (engine_state.rendezvous.world_size == 1 || !changed)
        return;
    CUcontext before = context_enter();
    share_parameter(&tensor);
    context_leave(before);
}

void
tensor_annotate_gradient(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    tensor_annotate(TENSOR_GRADIENT, ptr, count, type, site);
}

void
tensor_annotate(enum tensor_role role, void *ptr, size_t count, int type, const struct ddp_site *site)
{
    agree_ensure_driver(site);
    struct tensor tensor = describe(role, ptr, count, type, site);
    flight_note(FLIGHT_ANNOTATION, 0, tensor.bytes, site->text);
    require_device_memory(&tensor);
    agree_ensure_events();
    (void)place_or_stop(&tensor);
}

/* With lock held: takes the tensor's memory away. */
static void
unplace(struct tensor *tensor)
{
    (void)ranges_remove(&engine_state.ranges, tensor->address);
    tensor->placed = false;
    engine_state.placements += tensor->role != TENSOR_PARAMETER;
    update_bounds();
}

/* With lock held: removes the tensor for good. */
static void
drop(struct tensor *tensor)
{
    enum tensor_role role = tensor->role;
    size_t index = tensor->index, at = (size_t)(tensor - engine_state.tensors);
    memmove(tensor, tensor + 1, (engine_state.tensor_count - at - 1) * sizeof(*tensor));
    --engine_state.tensor_count;
    ++engine_state.placements; /* others have moved in the table */
    --*count_of(role);

    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        if (engine_state.tensors[i].role == role && engine_state.tensors[i].index > index)
            --engine_state.tensors[i].index;
    }
    for (size_t i = 0; i < engine_state.ranges.count; ++i) {
        if (engine_state.ranges.sorted[i].id > at)
            --engine_state.ranges.sorted[i].id;
    }
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        struct group *group = &engine_state.groups[g];
        for (size_t i = 0; i < group->gradient_count; ++i)
            group->places[i] -= group->places[i] > at;
    }
}

/* Collectives in flight may still be writing to memory that is about to be something else. */
static void
wait_for_collectives(void)
{
    if (!atomic_load(&engine_state.collectives_ready))
        return;
    issue_take_role();
    issue_wait_for_buckets();
    issue_give_role();
}

void
tensor_forget(void *ptr, const struct ddp_site *site)
{
    CUcontext before = context_enter();
    wait_for_collectives();
    context_leave(before);
    size_t count;
    bool too_late = false;
    pthread_mutex_lock(&engine_state.lock);
    const struct range *range = ranges_find(&engine_state.ranges, (uint64_t)(uintptr_t)ptr, 1, &count);
    if (range != NULL && range->begin == (uint64_t)(uintptr_t)ptr) {
        struct tensor *tensor = &engine_state.tensors[range->id];
        too_late = tensor->role != TENSOR_PARAMETER && buckets_have_left();
        if (tensor->role != TENSOR_PARAMETER)
            agree_annotations_changed();
        unplace(tensor);
        drop(tensor);
    }
    pthread_mutex_unlock(&engine_state.lock);
    if (too_late)
        stop_too_late("DDP_FORGET", site);
}

void
tensor_before_release(CUdeviceptr address, size_t bytes)
{
    visible_remove(address);
    if (!atomic_load(&engine_state.driver_ready) || atomic_load(&engine_state.context_ended) || address == 0)
        return;
    if (bytes == 0) {
        struct memory_facts facts = ask_about(address);
        bytes = facts.begin == address ? facts.bytes : 0;
    }
    size_t count = 0;
    bool holds_parameter = false;
    pthread_mutex_lock(&engine_state.lock);
    const struct range *held = bytes > 0 ? ranges_find(&engine_state.ranges, address, bytes, &count) : NULL;
    for (size_t i = 0; i < count; ++i)
        holds_parameter = holds_parameter || engine_state.tensors[held[i].id].role == TENSOR_PARAMETER;
    pthread_mutex_unlock(&engine_state.lock);
    if (count == 0)
        return;

    CUcontext before = context_enter();
    wait_for_collectives();
    if (holds_parameter)
        checks_final_hash(); /* it will be gone at the end */
    context_leave(before);
    pthread_mutex_lock(&engine_state.lock);
    const struct range *range;
    while ((range = ranges_find(&engine_state.ranges, address, bytes, &count)) != NULL)
        unplace(&engine_state.tensors[range->id]);
    pthread_mutex_unlock(&engine_state.lock);
}

/* Where a placed tensor is, from tensors[*at_p] on; false if there are no more. */
static bool
next_placed(size_t *at_p, CUdeviceptr *address_p)
{
    bool found = false;
    pthread_mutex_lock(&engine_state.lock);
    for (; *at_p < engine_state.tensor_count && !found; ++*at_p) {
        found = engine_state.tensors[*at_p].placed;
        *address_p = engine_state.tensors[*at_p].address;
    }
    pthread_mutex_unlock(&engine_state.lock);
    return found;
}

void
tensor_drop_vanished(void)
{
    CUdeviceptr address = 0;
    size_t at = 0, count;
    while (next_placed(&at, &address)) {
        if (ask_about(address).type != 0)
            continue;
        pthread_mutex_lock(&engine_state.lock);
        const struct range *range = ranges_find(&engine_state.ranges, address, 1, &count);
        if (range != NULL)
            unplace(&engine_state.tensors[range->id]);
        pthread_mutex_unlock(&engine_state.lock);
    }
}

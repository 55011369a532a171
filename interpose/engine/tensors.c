/*
 * tensors.c - the table of what the trainer has annotated: parameters, gradients and buffers, their memory and their
 * identity. What annotations say of it is in annotate.c, what takes its memory away in releases.c.
 */
#include "interpose/engine/tensors.h"

#include "base/mutant.h"

#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

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

/* ---- groups ---- */

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
tensor_refuse_freed(const struct tensor *tensor)
{
    static const char *const names[TENSOR_ROLES] = {
        [TENSOR_PARAMETER] = "parameter", [TENSOR_GRADIENT] = "gradient", [TENSOR_BUFFER] = "buffer"};
    if (!tensor->placed)
        stop_job("%s `%s` (%s:%d) was freed and not annotated again; annotate it after each allocation, or say "
                 "DDP_FORGET before it is freed",
                 names[tensor->role], tensor->site.text, tensor->site.file, tensor->site.line);
}

/*
 * What is in its place now would be neither sent from rank 0 nor compared. No group says which parameters are its own:
 * those of one that steps no more went with its gradients, of as many elements.
 */
void
tensor_refuse_freed_parameters(void)
{
    struct tensor freed = {.placed = true};
    uint64_t parameters = 0, gradients = 0;
    pthread_mutex_lock(&engine_state.lock);
    for (size_t i = 0; i < engine_state.tensor_count && engine_state.freed_parameter_count > 0; ++i) {
        const struct tensor *tensor = &engine_state.tensors[i];
        parameters += !tensor->placed && tensor->role == TENSOR_PARAMETER ? tensor->count : 0;
        gradients += !tensor->placed && tensor->role == TENSOR_GRADIENT ? tensor->count : 0;
        if (!tensor->placed && tensor->role == TENSOR_PARAMETER && freed.placed)
            freed = *tensor;
    }
    pthread_mutex_unlock(&engine_state.lock);
    if (parameters > gradients)
        tensor_refuse_freed(&freed);
}

/* ---- the table; all with lock held ---- */

/* How many there are. */
static size_t *
count_of(enum tensor_role role)
{
    size_t *const counts[TENSOR_ROLES] = {[TENSOR_PARAMETER] = &engine_state.parameter_count,
                                          [TENSOR_GRADIENT] = &engine_state.gradient_count,
                                          [TENSOR_BUFFER] = &engine_state.buffer_count};
    return counts[role];
}

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

enum tensor_placing
tensor_place(struct tensor *wanted, struct tensor *other_p)
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
    engine_state.freed_parameter_count -= again && wanted->role == TENSOR_PARAMETER;
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

void
tensor_unplace(struct tensor *tensor)
{
    (void)ranges_remove(&engine_state.ranges, tensor->address);
    tensor->placed = false;
    engine_state.freed_parameter_count += tensor->role == TENSOR_PARAMETER;
    engine_state.placements += tensor->role != TENSOR_PARAMETER;
    update_bounds();
}

void
tensor_drop(struct tensor *tensor)
{
    enum tensor_role role = tensor->role;
    size_t index = tensor->index, at = (size_t)(tensor - engine_state.tensors);
    engine_state.freed_parameter_count -= role == TENSOR_PARAMETER && !tensor->placed;
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

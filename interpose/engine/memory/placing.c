/*
 * placing.c - what is annotated enters the table (tensors.c), gets memory, loses it and leaves.
 *
 * Called by annotate.c and unmap.c; all with the engine's lock held.
 */
#include "interpose/engine/memory/escapes.h"

/* The bounds become wider only, until nothing is placed: the filter of launches knows the ranges themselves. */
static void
extend_bounds(const struct tensor *tensor) WITH_LOCK
{
    uint64_t end = tensor->address + tensor->bytes;
    if ((tensor->role == TENSOR_PARAMETER && !tensor->averaged) || !tensor->placed)
        return;
    if (tensor->address < atomic_load(&memory_state.lowest))
        atomic_store(&memory_state.lowest, tensor->address);
    if (end > atomic_load(&memory_state.highest))
        atomic_store(&memory_state.highest, end);
}

/* Whether one annotation may stand for the other: groups are compared where they count. */
static bool
is_of_same_group(const struct tensor *a, const struct tensor *b)
{
    return a->averaged == b->averaged && (!tensor_is_sent(a) || a->group == b->group);
}

/* A tensor of the same role, group, shape and kind of memory whose memory is gone, in order of annotation; NULL if not
 * found. */
static struct tensor *
find_freed(const struct tensor *wanted) WITH_LOCK
{
    if (memory_state.freed_count == 0)
        return NULL;
    while (memory_state.first_freed < engine_state.tensor_count &&
           memory_state.tensors[memory_state.first_freed].placed)
        ++memory_state.first_freed;
    ASSERT(memory_state.first_freed < engine_state.tensor_count);
    for (size_t i = memory_state.first_freed; i < engine_state.tensor_count; ++i) {
        struct tensor *tensor = &memory_state.tensors[i];
        if (!tensor->placed && tensor->role == wanted->role && tensor->count == wanted->count &&
            tensor->type == wanted->type && is_of_same_group(tensor, wanted) && tensor->kind == wanted->kind)
            return tensor;
    }
    return NULL;
}

bool
tensor_will_be_averaged(const struct tensor *tensor)
{
    bool is_float = type_is_of_gradients(tensor->type);
    bool can_be = tensor->role == TENSOR_PARAMETER || (tensor->role == TENSOR_STATE && is_float);
    return tensor->role == TENSOR_GRADIENT || (can_be && memory_state.groups[tensor->group].of_parameters);
}

void
tensor_average_parameters(struct group *group)
{
    group->of_parameters = true;
    for (struct tensor *tensor = NULL; (tensor = tensor_next(tensor)) != NULL;)
        tensor->averaged = tensor_will_be_averaged(tensor);
    if (engine_state.alone)
        return;
    groups_annotations_changed();
    ++engine_state.placements; /* graphs captured so far have not noted what they do to them */
    for (struct tensor *tensor = NULL; (tensor = tensor_next(tensor)) != NULL;) {
        if (tensor->averaged && tensor->placed && !tensor_is_shared(tensor) && !tensor->escaped && escape_has(tensor))
            escape_hold(tensor);
        extend_bounds(tensor);
    }
    launch_filter_ranges_changed(NULL);
}

size_t
tensor_index_for(const struct tensor *wanted)
{
    const struct tensor *freed = find_freed(wanted);
    return freed != NULL ? freed->index : *tensor_count_of(wanted->role);
}

/* The entry that the tensor gets: one whose memory is gone, or a new one. NULL: no memory. */
static struct tensor *
identity_for(const struct tensor *wanted) WITH_LOCK
{
    struct tensor *freed = find_freed(wanted);
    if (freed != NULL)
        return freed;
    if (engine_state.tensor_count == memory_state.tensor_capacity) {
        size_t capacity = memory_state.tensor_capacity == 0 ? 64 : 2 * memory_state.tensor_capacity;
        struct tensor *grown = realloc(memory_state.tensors, capacity * sizeof(*grown));
        if (grown == NULL)
            return NULL;
        memory_state.tensors = grown;
        memory_state.tensor_capacity = capacity;
    }
    return &memory_state.tensors[engine_state.tensor_count];
}

enum tensor_placing
tensor_place(struct tensor *wanted, struct tensor *other_p)
{
    struct range in_the_way;
    struct tensor *tensor = identity_for(wanted);
    if (tensor == NULL)
        return PLACED_NO_MEMORY;
    size_t at = (size_t)(tensor - memory_state.tensors);

    enum ranges_status status = ranges_add(&memory_state.ranges, wanted->address, wanted->bytes, at, &in_the_way);
    if (status == RANGES_NO_MEMORY)
        return PLACED_NO_MEMORY;
    if (status != RANGES_OK) {
        *other_p = memory_state.tensors[in_the_way.id];
        bool same = other_p->role == wanted->role && other_p->address == wanted->address &&
                    other_p->count == wanted->count && other_p->type == wanted->type &&
                    (tensor_is_compared(wanted) || other_p->group == wanted->group);
        return same ? PLACED_BEFORE : PLACED_OVERLAP;
    }

    bool again = at < engine_state.tensor_count;
    size_t *count = tensor_count_of(wanted->role);
    wanted->index = again ? tensor->index : *count;
    wanted->member = again ? tensor->member : 0;
    wanted->escaped = again && tensor->escaped;
    wanted->declared = again && tensor->declared;
    wanted->deferral = again ? tensor->deferral : escape_deferral(wanted);
    wanted->copy = again ? tensor->copy : 0;
    *tensor = *wanted;
    ASSERT(!again || memory_state.freed_count > 0);
    memory_state.freed_count -= again;
    memory_state.freed_compared_count -= again && tensor_is_compared(wanted);
    if (!again) {
        ++*count;
        ++engine_state.tensor_count;
    }
    if (!again && tensor_is_sent(wanted))
        groups_annotations_changed();
    engine_state.placements += tensor_is_sent(wanted);
    if (tensor_is_sent(wanted) && !tensor_is_shared(wanted) && !wanted->escaped && escape_has(wanted))
        escape_hold(&memory_state.tensors[at]);
    extend_bounds(wanted);
    launch_filter_ranges_changed(NULL);
    return again ? PLACED_AGAIN : PLACED_NEW;
}

void
tensor_unplace(struct tensor *tensor)
{
    (void)ranges_remove(&memory_state.ranges, tensor->address);
    tensor->placed = false;
    size_t at = (size_t)(tensor - memory_state.tensors);
    memory_state.first_freed =
        memory_state.freed_count++ == 0 || at < memory_state.first_freed ? at : memory_state.first_freed;
    memory_state.freed_compared_count += tensor_is_compared(tensor);
    engine_state.placements += tensor_is_sent(tensor);
    if (memory_state.ranges.count == 0) {
        atomic_store(&memory_state.lowest, UINT64_MAX);
        atomic_store(&memory_state.highest, 0);
    }
    launch_filter_ranges_changed(NULL);
}

void
tensor_set_forgotten(struct tensor *tensor)
{
    ASSERT(tensor->placed && tensor_is_compared(tensor));
    tensor_unplace(tensor);
    tensor->forgotten = true;
    ++memory_state.forgotten_count;
}

bool
tensor_drop_forgotten(void)
{
    bool found = memory_state.forgotten_count > 0;
    for (size_t i = engine_state.tensor_count; i > 0 && memory_state.forgotten_count > 0; --i) {
        if (memory_state.tensors[i - 1].forgotten)
            tensor_drop(&memory_state.tensors[i - 1]);
    }
    ASSERT(memory_state.forgotten_count == 0);
    if (found)
        tensor_report_averaged(NULL);
    return found;
}

void
tensor_drop(struct tensor *tensor)
{
    enum tensor_role role = tensor->role;
    size_t index = tensor->index, at = (size_t)(tensor - memory_state.tensors);
    memory_state.freed_count -= !tensor->placed;
    memory_state.freed_compared_count -= tensor_is_compared(tensor) && !tensor->placed;
    memory_state.forgotten_count -= tensor->forgotten;
    memory_state.first_freed = memory_state.compared_index = memory_state.compared_at = 0;
    memmove(tensor, tensor + 1, (engine_state.tensor_count - at - 1) * sizeof(*tensor));
    --engine_state.tensor_count;
    ++engine_state.placements; /* others have moved in the table */
    --*tensor_count_of(role);

    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        if (memory_state.tensors[i].role == role && memory_state.tensors[i].index > index)
            --memory_state.tensors[i].index;
    }
    for (size_t i = 0; i < memory_state.ranges.count; ++i) { /* in any order */
        if (memory_state.ranges.sorted[i].id > at)
            --memory_state.ranges.sorted[i].id;
    }
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        struct group *group = &memory_state.groups[g];
        for (size_t i = 0; i < group->gradient_count; ++i)
            group->places[i] -= group->places[i] > at;
    }
}

/*
 * tensors.c - the table of what the trainer has annotated: parameters, gradients, buffers and states, their memory and
 * their identity. What annotations say of it is in annotate.c, what takes its memory away in releases.c.
 */
#include "interpose/engine/tensors.h"
#include "interpose/engine/escapes.h"

#include "base/mutant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- roles ---- */

/* With lock held: how many there are. */
static size_t *
count_of(enum tensor_role role)
{
    size_t *const counts[TENSOR_ROLES] = {[TENSOR_PARAMETER] = &engine_state.parameter_count,
                                          [TENSOR_GRADIENT] = &engine_state.gradient_count,
                                          [TENSOR_BUFFER] = &engine_state.buffer_count,
                                          [TENSOR_STATE] = &engine_state.state_count};
    return counts[role];
}

const char *
tensor_describe(const struct tensor *tensor, char text[TENSOR_TEXT_BYTES])
{
    pthread_mutex_lock(&engine_state.lock);
    size_t count = *count_of(tensor->role);
    pthread_mutex_unlock(&engine_state.lock);
    const char *slash = strrchr(tensor->site.file, '/');
    snprintf(text, TENSOR_TEXT_BYTES, "%s %zu of %zu (`%.80s`, %zu %s, %.60s:%d)", tensor_role_name(tensor->role),
             tensor->index + 1, count, tensor->site.text, tensor->count, type_name(tensor->type),
             slash != NULL ? slash + 1 : tensor->site.file, tensor->site.line);
    return text;
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

const char *
tensor_role_name(enum tensor_role role)
{
    static const char *const names[TENSOR_ROLES] = {[TENSOR_PARAMETER] = "parameter",
                                                    [TENSOR_GRADIENT] = "gradient",
                                                    [TENSOR_BUFFER] = "buffer",
                                                    [TENSOR_STATE] = "state"};
    return names[role];
}

void
tensor_refuse_freed(const struct tensor *tensor)
{
    char text[TENSOR_TEXT_BYTES];
    if (!tensor->placed)
        stop_job("%s was freed and not annotated again; annotate it after each allocation, or say DDP_FORGET before it "
                 "is freed",
                 tensor_describe(tensor, text));
}

/*
 * What is in its place now would be neither sent from rank 0 nor compared. No group says which parameters are its own:
 * those of one that steps no more went with its gradients, of as many elements. Its states went with gradients, too.
 */
void
tensor_refuse_freed_parameters(void)
{
    struct tensor freed[TENSOR_ROLES]; /* the first of each role */
    uint64_t elements[TENSOR_ROLES] = {0};
    for (int role = 0; role < TENSOR_ROLES; ++role)
        freed[role] = (struct tensor){.placed = true, .site = {"?", "?", 0}};
    pthread_mutex_lock(&engine_state.lock);
    for (size_t i = 0; i < engine_state.tensor_count && engine_state.freed_compared_count > 0; ++i) {
        const struct tensor *tensor = &engine_state.tensors[i];
        if (tensor->placed)
            continue;
        if (elements[tensor->role] == 0)
            freed[tensor->role] = *tensor;
        elements[tensor->role] += tensor->count;
    }
    pthread_mutex_unlock(&engine_state.lock);
    if (elements[TENSOR_PARAMETER] > elements[TENSOR_GRADIENT])
        tensor_refuse_freed(&freed[TENSOR_PARAMETER]);
    if (elements[TENSOR_STATE] > 0 && elements[TENSOR_GRADIENT] == 0)
        tensor_refuse_freed(&freed[TENSOR_STATE]);
}

/* ---- the table; all with lock held ---- */

size_t
tensor_compared_count(void)
{
    return engine_state.parameter_count + engine_state.state_count;
}

const struct tensor *
tensor_compared(size_t index)
{
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        const struct tensor *tensor = &engine_state.tensors[i];
        if (tensor_is_compared(tensor) && index-- == 0)
            return tensor;
    }
    return NULL;
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

/* A tensor of the same role, group and shape whose memory is gone, in order of annotation; NULL if there is none. */
static struct tensor *
find_freed(const struct tensor *wanted)
{
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        bool backwards = MUTANT(IDENTITY_MIXED) && engine_state.rendezvous.rank % 2 == 1;
        struct tensor *tensor = &engine_state.tensors[backwards ? engine_state.tensor_count - 1 - i : i];
        if (!tensor->placed && tensor->role == wanted->role && tensor->count == wanted->count &&
            tensor->type == wanted->type && tensor->group == wanted->group)
            return tensor;
    }
    return NULL;
}

size_t
tensor_index_for(const struct tensor *wanted)
{
    const struct tensor *freed = find_freed(wanted);
    return freed != NULL ? freed->index : *count_of(wanted->role);
}

/* The entry that the tensor gets: one whose memory is gone, or a new one. NULL: no memory. */
static struct tensor *
identity_for(const struct tensor *wanted)
{
    struct tensor *freed = find_freed(wanted);
    if (freed != NULL)
        return freed;
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
    engine_state.freed_compared_count -= again && tensor_is_compared(wanted);
    if (!again) {
        ++*count;
        ++engine_state.tensor_count;
    }
    if (!again && !tensor_is_compared(wanted))
        agree_annotations_changed();
    engine_state.placements += !tensor_is_compared(wanted);
    if (!tensor_is_compared(wanted) && !wanted->held && escape_has(wanted))
        escape_hold(&engine_state.tensors[at]);
    update_bounds();
    return again ? PLACED_AGAIN : PLACED_NEW;
}

void
tensor_unplace(struct tensor *tensor)
{
    (void)ranges_remove(&engine_state.ranges, tensor->address);
    tensor->placed = false;
    engine_state.freed_compared_count += tensor_is_compared(tensor);
    engine_state.placements += !tensor_is_compared(tensor);
    update_bounds();
}

void
tensor_drop(struct tensor *tensor)
{
    enum tensor_role role = tensor->role;
    size_t index = tensor->index, at = (size_t)(tensor - engine_state.tensors);
    engine_state.freed_compared_count -= tensor_is_compared(tensor) && !tensor->placed;
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

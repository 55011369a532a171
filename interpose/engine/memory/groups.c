/*
 * groups.c - which gradients are a group's, and what their groups say of them (group.h).
 *
 * All with the engine's lock held.
 */
#include "interpose/engine/memory/memory.h"

/* With lock held: what the group averages, in the order of their annotation. */
static bool
index_group(struct group *group) ISSUER_WITH_LOCK
{
    size_t *places = realloc(group->places, (engine_state.tensor_count + 1) * sizeof(*places));
    if (places == NULL)
        return false;
    group->places = places;
    group->gradient_count = 0;
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        struct tensor *tensor = &memory_state.tensors[i];
        if (!tensor->averaged || tensor->group != group->id)
            continue;
        tensor->member = group->gradient_count;
        places[group->gradient_count++] = i;
    }
    if (group->gradient_count == 0)
        group->opaque_streams = group->hidden_streams = 0; /* no boundary of it will come */
    return true;
}

const char *
group_step_name(const struct group *group)
{
    return group->of_parameters ? "DDP_STEP_PARAMETERS" : "DDP_STEP";
}

bool
group_has(int id, bool parameters)
{
    enum tensor_role role = parameters ? TENSOR_PARAMETER : TENSOR_GRADIENT;
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        if (memory_state.tensors[i].role == role && memory_state.tensors[i].group == id)
            return true;
    }
    return false;
}

enum { FIRST_BOUNDARIES = 64 };

bool
tensor_waits_for_group(const struct tensor *tensor)
{
    return tensor_is_compared(tensor) && !tensor->averaged && type_is_of_gradients(tensor->type) &&
           tensor->group != 0 && !memory_state.groups[tensor->group].of_parameters &&
           engine_state.boundary_count < FIRST_BOUNDARIES && !group_has(tensor->group, false);
}

bool
tensor_index_gradients(void)
{
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        memory_state.groups[g].id = g;
        if (!index_group(&memory_state.groups[g]))
            return false;
    }
    return true;
}

/* With lock held: what was touched is waited for at the boundary of its group, though numbers in groups will change. */
void
groups_annotations_changed(void)
{
    ++memory_state.annotation_changes;
    if (memory_state.annotations_changed) /* since then touches only leave their stream */
        return;
    for (struct tensor *tensor = NULL; (tensor = tensor_next(tensor)) != NULL;) {
        memory_state.groups[tensor->group].opaque_streams |= tensor->touched_by;
        tensor->touched_by = 0;
    }
    for (int g = 0; g < GROUPS_AT_MOST; ++g)
        memory_state.groups[g].overlapping = false;
    memory_state.annotations_changed = true;
}

bool
groups_have_sent(void)
{
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        if (memory_state.groups[g].early_buckets > 0)
            return true;
    }
    return false;
}

/* With lock held: the group whose boundary comes next, as far as it can be known. */
int
groups_expected(void)
{
    int only = SEQUENCE_NONE;
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        if (memory_state.groups[g].gradient_count == 0)
            continue;
        if (only != SEQUENCE_NONE)
            return sequence_next(&memory_state.boundaries);
        only = g;
    }
    return only;
}

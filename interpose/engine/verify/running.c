/*
 * running.c - are the parameters that differ at the first DDP_STEP running statistics, which forward writes?
 *
 * Before the first update nothing writes a parameter but its initialisation, an optimizer that runs too early, and
 * forward, where it keeps statistics of a rank's own items. An optimizer updates what has a gradient: so the question
 * is whether no more parameters of one count and type differ than have no gradient, or one of zeros. One without a
 * gradient that is initialised late looks alike; the message names both. Called by checks.c at the first DDP_STEP.
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/verify/verify.h"

/* In a host function. */
static void
note_zero(void *index, const struct hashed *hashed)
{
    engine_lock();
    struct tensor *tensor = tensor_find(TENSOR_GRADIENT, (size_t)(uintptr_t)index);
    if (tensor != NULL)
        tensor->was_zero = hashed->zero;
    engine_unlock();
}

void
running_before_release(const struct group *group, struct hasher *hasher)
{
    for (size_t i = 0; group != NULL && i < group->gradient_count; ++i) {
        const struct tensor tensor = tensor_copy_gradient(group, i);
        if (tensor.role == TENSOR_GRADIENT && tensor.placed && tensor.kind == MEMORY_DEVICE)
            hasher_add(hasher, tensor.address, tensor.bytes, tensor.type, note_zero, (void *)(uintptr_t)tensor.index);
    }
}

static bool
is_alike(const struct tensor *a, const struct tensor *b)
{
    return a->count == b->count && a->type == b->type;
}

/* With lock held: whether of the parameters like this one no more differ than have no gradient. */
static bool
has_none(const struct tensor *tensor, const uint32_t *differs, size_t count) WITH_LOCK
{
    size_t parameters = 0, different = 0, gradients = 0;
    for (const struct tensor *other = tensor_next(NULL); other != NULL; other = tensor_next(other))
        gradients += other->role == TENSOR_GRADIENT && is_alike(other, tensor) && !other->was_zero;
    for (size_t i = 0; i < count; ++i) {
        const struct tensor *other = tensor_compared(i);
        bool counts = other != NULL && other->role == TENSOR_PARAMETER && is_alike(other, tensor);
        parameters += counts;
        different += counts && gather_differs(differs[i]);
    }
    return gradients + different <= parameters;
}

bool
running_are_all(const uint32_t *differs, size_t count)
{
    engine_lock();
    bool all = memory_state.gradient_count > 0;
    for (size_t i = 0; i < count && all; ++i) {
        const struct tensor *tensor = tensor_compared(i);
        if (gather_differs(differs[i]))
            all = tensor != NULL && tensor->role == TENSOR_PARAMETER && has_none(tensor, differs, count);
    }
    engine_unlock();
    return all;
}

/*
 * deferred.c - which gradients wait for DDP_STEP on all ranks, because one rank cannot say when they are complete.
 *
 * The ranks exchange what each of them wants to defer before each vote (planner.c), and plan alike. The issuer, at a
 * boundary.
 */
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/plan/planner.h"

#include "base/message.h"

#include <stdlib.h>
#include <string.h>

void
deferred_order(const struct group *group, size_t *order)
{
    size_t count = group->gradient_count, kept = 0, moved = 0;
    size_t *held = calloc(count + 1, sizeof(*held));
    if (held == NULL)
        stop_job("out of memory");
    pthread_mutex_lock(&engine_state.lock);
    for (size_t i = 0; i < count; ++i) {
        if (tensor_gradient(group, order[i])->held_by_any)
            held[moved++] = order[i];
        else
            order[kept++] = order[i];
    }
    pthread_mutex_unlock(&engine_state.lock);
    memcpy(order + kept, held, moved * sizeof(*held));
    free(held);
}

/* With lock held: whether this rank wants the gradient to wait for the boundary. */
static bool
wants_to_hold(const struct group *group, size_t member)
{
    const struct tensor *tensor = tensor_gradient(group, member);
    bool unseen = atomic_load(&memory_state.blind) && !tensor->by_library && !tensor->declared;
    return unseen || escape_is_held(tensor) || history_is_irregular(&group->history, member);
}

/* Rank 0 says once that some gradients are averaged late, and why: `first` is one of them. */
static void
say_held(const struct group *group, size_t held, const struct tensor *first)
{
    static _Atomic bool said[2];
    bool escaped = first->held && !first->declared;
    if (held == 0 || engine_state.rendezvous.rank != 0 || atomic_load(&memory_state.blind) ||
        atomic_exchange(&said[escaped], true))
        return;
    char text[TENSOR_TEXT_BYTES];
    message_line("%zu of %zu gradients are averaged at DDP_STEP, without overlap: %s; the first is %s", held,
                 group->gradient_count,
                 escaped ? "their addresses were copied to the device, and kernels may reach them unseen"
                         : "what touches them differs from step to step",
                 tensor_describe(first, text));
}

/* Whether the plan takes the gradient for one that is held. */
static bool
is_planned_held(const struct plan *plan, size_t member)
{
    return escape_bucket_is_held(&plan->buckets[plan->bucket_of[member]]);
}

bool
deferred_agree(const struct group *group)
{
    size_t count = group->gradient_count, held = 0;
    unsigned char *mine = calloc(count + 1, 1);
    if (mine == NULL)
        stop_job("out of memory");
    pthread_mutex_lock(&engine_state.lock);
    for (size_t i = 0; i < count; ++i)
        mine[i] = wants_to_hold(group, i);
    pthread_mutex_unlock(&engine_state.lock);
    struct control_messages all;
    agree_exchange("gradients that are averaged at DDP_STEP only", mine, count, &all);
    free(mine);

    bool differs = false;
    struct tensor first = {.placed = false};
    pthread_mutex_lock(&engine_state.lock);
    for (size_t i = 0; i < count; ++i) {
        struct tensor *tensor = tensor_gradient(group, i);
        tensor->held_by_any = false;
        for (int r = 0; r < all.count && all.bytes[r] == count; ++r)
            tensor->held_by_any = tensor->held_by_any || ((const unsigned char *)all.messages[r])[i] != 0;
        if (tensor->held_by_any && held++ == 0)
            first = *tensor;
        differs = differs || tensor->held_by_any != is_planned_held(group->plan, i);
    }
    pthread_mutex_unlock(&engine_state.lock);
    control_free_messages(&all);
    say_held(group, held, &first);
    return differs;
}

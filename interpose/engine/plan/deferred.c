/*
 * deferred.c - which gradients wait for DDP_STEP on all ranks, because one rank cannot say when they are complete.
 *
 * The ranks exchange what each of them wants to defer before each vote (planner.c), and plan alike. The issuer, at a
 * boundary.
 */
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/plan/planner.h"

#include "base/message.h"

void
deferred_order(const struct group *group, size_t *order)
{
    size_t count = group->gradient_count, kept = 0, moved = 0;
    size_t *deferred = engine_calloc(count + 1, sizeof(*deferred));
    issuer_lock();
    for (size_t i = 0; i < count; ++i) {
        if (tensor_gradient(group, order[i])->deferral != DEFERRED_NOT)
            deferred[moved++] = order[i];
        else
            order[kept++] = order[i];
    }
    issuer_unlock();
    memcpy(order + kept, deferred, moved * sizeof(*deferred));
    free(deferred);
}

/* With lock held: why this rank wants the gradient to wait for DDP_STEP. */
static enum deferral
wanted_deferral(const struct group *group, size_t member) WITH_LOCK
{
    enum deferral unseen = escape_deferral(tensor_gradient(group, member));
    bool irregular = history_is_irregular(&group->history, member);
    return unseen == DEFERRED_NOT && irregular ? DEFERRED_IRREGULAR : unseen;
}

/* Of all ranks' reasons, the last. */
static enum deferral
agreed_deferral(const struct control_messages *all, size_t count, size_t member)
{
    unsigned char agreed = DEFERRED_NOT;
    for (int r = 0; r < all->count && all->bytes[r] == count; ++r) {
        unsigned char theirs = ((const unsigned char *)all->messages[r])[member];
        agreed = theirs > agreed && theirs < DEFERRALS ? theirs : agreed;
    }
    return (enum deferral)agreed;
}

/* Rank 0 reports once for each reason that some gradients are deferred: `first` is one of them. (Of memory that the
 * host reaches, host_memory.c speaks.) */
static void
report_deferred(const struct group *group, size_t deferred, const struct tensor *first) BY_ISSUER
{
    static _Atomic bool reported[DEFERRALS];
    if (deferred == 0 || engine_state.rendezvous.rank != 0 || atomic_exchange(&reported[first->deferral], true))
        return;
    message_warning("without_overlap",
                    "%zu of %zu gradients are averaged at DDP_STEP, without overlap: %s; the first is %s", deferred,
                    group->gradient_count,
                    first->deferral == DEFERRED_ESCAPED
                        ? "their addresses were copied to the device, so ddprun cannot see all kernels that use them"
                        : "the kernels that use them differ from step to step",
                    tensor_text(first));
}

/* Whether the plan takes the gradient for one that is deferred. */
static bool
is_planned_deferred(const struct plan *plan, size_t member)
{
    return escape_bucket_is_deferred(&plan->buckets[plan->bucket_of[member]]);
}

bool
deferred_agree(const struct group *group)
{
    size_t count = group->gradient_count, deferred = 0;
    unsigned char *mine = engine_calloc(count + 1, 1);
    issuer_lock();
    for (size_t i = 0; i < count; ++i)
        mine[i] = (unsigned char)wanted_deferral(group, i);
    issuer_unlock();
    struct control_messages all;
    exchange("gradients that are averaged at DDP_STEP only", mine, count, &all);
    free(mine);

    bool differs = false;
    struct tensor first = {.placed = false};
    issuer_lock();
    for (size_t i = 0; i < count; ++i) {
        struct tensor *tensor = tensor_gradient(group, i);
        tensor->deferral = agreed_deferral(&all, count, i);
        bool is_deferred = tensor->deferral != DEFERRED_NOT;
        if (is_deferred && tensor->deferral != DEFERRED_SHARED && deferred++ == 0)
            first = *tensor;
        differs = differs || is_deferred != is_planned_deferred(group->plan, i);
    }
    issuer_unlock();
    control_free_messages(&all);
    report_deferred(group, deferred, &first);
    return differs;
}

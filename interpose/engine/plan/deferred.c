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
    if (unseen != DEFERRED_NOT || !history_is_irregular(&group->history, member))
        return unseen;
    return tensor_gradient(group, member)->is_rewritten ? DEFERRED_REWRITTEN : DEFERRED_IRREGULAR;
}

/* What a rank says of a gradient. */
struct wish {
    uint32_t deferral;
    uint32_t last;  /* identity of the last touch, the same on every rank; 0: none; UNSTEADY: another in each step */
    uint32_t count; /* of touches */
};

#define UNSTEADY UINT32_MAX

/* With lock held. */
static struct wish
wish_of(const struct group *group, size_t member) WITH_LOCK
{
    const struct touch_list *list = &group->history.previous[member];
    struct touch last = list->count > 0 ? list->touches[list->count - 1] : (struct touch){0, 0};
    uint32_t identity = (uint32_t)(last.call ^ last.call >> 32) + last.argument;
    return (struct wish){wanted_deferral(group, member), group->history.streak[member] > 0 ? identity : UNSTEADY,
                         (uint32_t)list->count};
}

/* Of all ranks' reasons, the last. A rank whose gradient is complete before its next backward pass would wait for one
 * that comes to it only there, and that may wait for this rank elsewhere. It has fewer touches, and another last one;
 * a rank for which a library has chosen other kernels, mostly not. */
static enum deferral
agreed_deferral(const struct control_messages *all, size_t count, size_t member)
{
    uint32_t agreed = DEFERRED_NOT;
    const struct wish *last = NULL; /* that is steady */
    bool unlike = false;
    for (int r = 0; r < all->count && all->bytes[r] == count * sizeof(struct wish); ++r) {
        const struct wish *theirs = (const struct wish *)all->messages[r] + member;
        agreed = theirs->deferral > agreed && theirs->deferral < DEFERRALS ? theirs->deferral : agreed;
        if (theirs->last == UNSTEADY)
            continue;
        unlike = unlike || (last != NULL && theirs->last != last->last && theirs->count != last->count);
        last = theirs;
    }
    return agreed == DEFERRED_NOT && unlike ? DEFERRED_UNLIKE : (enum deferral)agreed;
}

/* Rank 0 reports once for each reason that some gradients are deferred: `first` is one of them. (Of memory that the
 * host reaches, host_memory.c speaks.) */
static void
report_deferred(const struct group *group, size_t deferred, const struct tensor *first) BY_ISSUER
{
    static _Atomic bool reported[DEFERRALS];
    static const char *const reasons[DEFERRALS] = {
        [DEFERRED_IRREGULAR] = "the kernels that use them differ from step to step",
        [DEFERRED_REWRITTEN] = "they were written again after the last work of earlier steps, in 3 of 64 steps",
        [DEFERRED_UNLIKE] = "the last kernels that use them differ between ranks",
        [DEFERRED_ESCAPED] =
            "their addresses were copied to the device, so ddprun cannot see all kernels that use them",
    };
    if (deferred == 0 || engine_state.rendezvous.rank != 0 || atomic_exchange(&reported[first->deferral], true))
        return;
    message_warning("without_overlap",
                    "%zu of %zu gradients are averaged at DDP_STEP, without overlap: %s; the first is %s", deferred,
                    group->gradient_count, reasons[first->deferral], tensor_text(first));
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
    struct wish *mine = engine_calloc(count + 1, sizeof(*mine));
    issuer_lock();
    for (size_t i = 0; i < count; ++i)
        mine[i] = wish_of(group, i);
    issuer_unlock();
    struct control_messages all;
    exchange("gradients that are averaged at DDP_STEP only", mine, count * sizeof(*mine), &all);
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

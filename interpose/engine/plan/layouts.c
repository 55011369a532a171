/*
 * layouts.c - other layouts of a group's gradients, which steps of a trial take in place of the plan's.
 *
 * All are there before the trial's first step, compared between ranks, with wires and memory of their own, so that a
 * step changes its layout without waiting for anything. Of several groups one at a time has a trial.
 */
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/plan/planner.h"
#include "interpose/engine/send/send.h"

_Static_assert((int)LAYOUTS <= (int)OTHERS_AT_MOST, "there is room for all layouts");

static struct {
    struct group *group;          /* NULL: there are none */
    const struct plan *own;       /* the plan in force, */
    struct shipment own_shipment; /* and its wires, while steps take another */
    struct shipment others[LAYOUTS];
    size_t count;
} layouts GUARDED_BY(issuer_role);

/* The step that begins takes this plan. */
static void
take(const struct plan *plan, const struct shipment *shipment) BY_ISSUER
{
    struct group *group = layouts.group;
    if (group->plan == plan)
        return;
    issuer_lock();
    bool good = readiness_switch(&group->readiness, plan);
    group->plan = plan;
    issuer_unlock();
    require_allocated(good);
    group->shipment = *shipment;
    wires_mark_last(group);
}

void
layouts_wear(const struct group *group, const struct plan *plan)
{
    if (layouts.group == NULL || layouts.group != group)
        return;
    if (plan == NULL)
        take(layouts.own, &layouts.own_shipment);
    for (size_t i = 0; plan != NULL && i < layouts.count; ++i) {
        if (layouts.others[i].plan == plan)
            take(layouts.others[i].plan, &layouts.others[i]);
    }
}

void
layouts_end(const struct group *group)
{
    if (layouts.group == NULL || layouts.group != group)
        return;
    layouts_wear(group, NULL);
    wires_free_others(layouts.others, layouts.count);
    for (size_t i = 0; i < layouts.count; ++i)
        plan_free(layouts.others[i].plan);
    layouts.group = NULL;
}

void
layouts_begin(struct group *group, const struct plan *const *plans, size_t count)
{
    ASSERT(layouts.group == NULL && count > 0 && count <= LAYOUTS);
    for (size_t i = 0; i < count; ++i) {
        plans_compare(group, plans[i]);
        layouts.others[i] = (struct shipment){.plan = plans[i]};
    }
    launch_prepare_others(group, layouts.others, count);
    for (size_t i = 0; i < count; ++i)
        connect_sizes(plans[i]);
    layouts.group = group;
    layouts.count = count;
    layouts.own = group->plan;
    layouts.own_shipment = group->shipment;
}

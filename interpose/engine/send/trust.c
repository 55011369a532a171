/*
 * trust.c - by --commit trust the device commits averages, and DDP_STEP returns before the host knows the verdict.
 *
 * The kernels that write averages look at the words of all ranks themselves: where a bucket is stale on some rank, none
 * writes. What follows DDP_STEP is then computed from a rank's own gradients, so the job ends; and no result of it may
 * have left the device by then. So each call by which one may leave, and each annotation, first waits for the verdict
 * (speculation_await_verdict()): of operations step/exits.c says which. The launch of the next step's first bucket
 * waits, too: it would replace the digests that say which gradient was written. The device has work meanwhile.
 *
 * A program whose gradients are stale now and then would be ended in its first steps, where ranks learn that: trust
 * begins when as many steps in a row had no repair as buckets are judged by (speculation.c).
 *
 * Called by speculation.c: by the issuer at boundaries, and in any thread for the hooks.
 */
#include "interpose/engine/report/report.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/verify/verify.h"

#include "base/clock.h"

/* The step whose verdict the host does not know yet: its number; 0: there is none. Written with lock held. */
static _Atomic uint64_t awaited_step;
static struct verdict awaited GUARDED_BY(engine_mutex);

/* Another process may look at this one's memory at any time. */
static _Atomic bool is_shared;

/* Steps of each group in a row without a repair, by the same plan. */
static struct {
    const struct plan *plan;
    uint64_t count;
} clean[GROUPS_AT_MOST] GUARDED_BY(issuer_role);

/* ---- at a boundary ---- */

bool
trust_holds(const struct group *group)
{
    if (engine_state.options.commit != DDPRUN_COMMIT_TRUST || group->tried || atomic_load(&is_shared))
        return false;
    if (checks_parameters_due(group)) /* waited for anyway, and what is compared may be averages */
        return false;
    return clean[group->id].plan == group->plan && clean[group->id].count >= engine_state.trust_after;
}

void
trust_note(const struct group *group, size_t stale)
{
    if (stale > 0 || clean[group->id].plan != group->plan)
        clean[group->id].count = 0;
    clean[group->id].plan = group->plan;
    clean[group->id].count += stale == 0 && !group->tried;
}

void
trust_share(void)
{
    atomic_store(&is_shared, true);
}

void
trust_await(const struct verdict *verdict)
{
    ASSERT(verdict->step > 0 && atomic_load(&awaited_step) == 0);
    atomic_fetch_add(&engine_state.status->trusted_steps, 1);
    issuer_lock();
    awaited = *verdict;
    atomic_store(&awaited_step, verdict->step);
    issuer_unlock();
}

/* ---- the verdict ---- */

enum verdict_kind
trust_judge(const struct verdict *verdict)
{
    const uint32_t world = (uint32_t)engine_state.rendezvous.world_size;
    enum verdict_kind kind = VERDICT_CLEAN;
    if (verdict->heard[verdict->bucket_count] != verdict->known)
        return VERDICT_DAMAGED;
    for (size_t k = 0; k < verdict->bucket_count; ++k) {
        if (verdict->heard[k] > world)
            return VERDICT_DAMAGED;
        if (verdict->heard[k] > 0)
            kind = VERDICT_STALE;
    }
    return kind;
}

bool
trust_is_awaited(void)
{
    return atomic_load_explicit(&awaited_step, memory_order_acquire) != 0;
}

/* If another thread reads it meanwhile, and the next step records the event again, this waits for the next one, too. */
static void
wait_until_come(uint64_t step, CUevent come)
{
    range_begin("waits for the comparison of step %llu", (unsigned long long)step);
    device_await(come, "waiting for the comparison of buckets");
    range_end();
}

/* Whether the step may stand. One that may not stays awaited: no thread goes on. */
static bool
read_verdict(uint64_t step, struct verdict *verdict_p)
{
    bool stands = true;
    engine_lock();
    if (atomic_load(&awaited_step) == step) {
        *verdict_p = awaited;
        stands = trust_judge(&awaited) == VERDICT_CLEAN;
        if (stands)
            atomic_store(&awaited_step, 0);
    }
    engine_unlock();
    return stands;
}

bool
trust_settle(struct verdict *verdict_p)
{
    uint64_t step = atomic_load_explicit(&awaited_step, memory_order_acquire);
    if (step == 0)
        return true;
    ENTER_CONTEXT();
    RELAX_CAPTURES(); /* for the queries */
    wait_until_come(step, LOCKED(awaited.come));
    return read_verdict(step, verdict_p);
}

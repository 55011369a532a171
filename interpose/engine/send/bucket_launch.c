/*
 * bucket_launch.c - launches buckets, in the plan's order, from whichever thread made one ready.
 *
 * One thread at a time has the role of the issuer; a thread that finds it taken leaves, and the issuer sees its bucket
 * in the next round. All order between backward and reduction is by events on the device: before DDP_STEP the host
 * waits for nothing.
 */
#include "interpose/engine/core/observer.h"
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/send/send.h"

/* With lock held: the streams that touched the gradients of a bucket since the group's last boundary. */
static uint64_t
streams_of_bucket(const struct group *group, size_t bucket) WITH_LOCK
{
    ASSERT(group->readiness.plan == group->plan);
    const struct plan_bucket *of = &group->plan->buckets[bucket];
    uint64_t mask = group->opaque_streams;
    for (size_t i = of->first; i < of->first + of->count; ++i) {
        const struct tensor *tensor = tensor_gradient(group, group->plan->pieces[i].gradient);
        ASSERT(!tensor_is_shared(tensor));
        mask |= tensor->touched_by;
    }
    return mask;
}

/* At the boundary, where its members lie. */
static void
send_at_boundary(const struct group *group, size_t bucket, double factor) BY_ISSUER
{
    struct comm_error error;
    struct bucket_wire *wire = &group->shipment.wires[bucket];
    if (!collectives_reduce(&engine_state.collectives, wire, factor, first_stream(), &error))
        stop_job_by(error.cause, "bucket %zu of step %llu: %s", bucket,
                    (unsigned long long)engine_state.boundary_count + 1, error.text);
}

/* ---- plans ---- */

void
launch_prepare_plan(struct group *group)
{
    speculation_await_verdict_launching();
    wires_prepare_plan(group);
    if (group->shipment.packed != 0)
        speculation_make_room(group->shipment.wire_count);
}

void
launch_prepare_others(struct group *group, struct shipment *others, size_t count)
{
    speculation_await_verdict_launching();
    wires_prepare_others(group, others, count);
    for (size_t i = 0; i < count; ++i)
        speculation_make_room(others[i].wire_count);
}

/* ---- one bucket ---- */

void
launch_bucket(struct group *group, size_t bucket, bool early)
{
    unsigned watching = atomic_load_explicit(&engine_state.watching, memory_order_relaxed);
    ASSERT(group->shipment.plan == group->plan && bucket < group->shipment.wire_count);
    struct bucket_wire *wire = group_wire(group, bucket);
    bool speculates = wire != &group->shipment.wires[bucket];
    ASSERT(speculates || !early);
    if (!early)
        (void)wires_follow(&group->shipment, group->places, bucket, wire);
    const struct weight weight = weight_of(group);
    WATCHED(watching, bucket_begins, group, bucket, early);
    inflight_sending("bucket", bucket, COMMUNICATOR_ENGINE);
    if (speculates)
        speculation_launch(group, bucket, weight_factor(&weight), early);
    else
        send_at_boundary(group, bucket, weight_factor(&weight));
    inflight_sent("bucket", bucket, COMMUNICATOR_ENGINE);
    flight_note(FLIGHT_BUCKET, bucket, group->plan->buckets[bucket].bytes, early ? "early" : "at DDP_STEP");
    WATCHED(watching, bucket_ends, group, bucket, early);
}

/* ---- before a boundary ---- */

/* With lock held: the group whose boundary is next, as far as it can be known, if its buckets may be launched; else
 * NULL. */
static struct group *
expected_group(void) WITH_LOCK
{
    if (memory_state.expected_group == SEQUENCE_NONE)
        return NULL;
    struct group *group = &memory_state.groups[memory_state.expected_group];
    return group->overlapping ? group : NULL;
}

/* With lock held: whether launching before the boundary is worth while now. */
static bool
is_worth_while(const struct group *group) WITH_LOCK
{
    const bool *holds = engine_state.services->holds;
    if (memory_state.no_sync || memory_state.turn_holds || (holds != NULL && __atomic_load_n(holds, __ATOMIC_ACQUIRE)))
        return false;
    return group->weighed >= group->weighed_before; /* else a bucket would be sent before its weight is known */
}

void
launch_early(struct group *group, size_t bucket) ISSUER_WITH_LOCK
{
    uint64_t mask = streams_of_bucket(group, bucket);
    ++group->early_buckets;
    ASSERT(group->id == memory_state.expected_group && group->early_buckets == group->readiness.launched);
    issuer_unlock();
    WATCHED(atomic_load(&engine_state.watching), bucket_ready, group, bucket, mask);
    streams_wait_for_producers(mask, first_stream());
    launch_bucket(group, bucket, true);
    issuer_lock();
}

void
launch_ready(void)
{
    engine_lock();
    if (engine_state.issuing) {
        engine_unlock();
        return;
    }
    engine_state.issuing = true;
    capability_take(&issuer_role);
    capability_give(&group_fields);
    capability_take(&group_fields);
    struct group *group = expected_group(); /* only the issuer changes it, at a boundary */
    size_t bucket;
    while (group != NULL && group->overlapping && is_worth_while(group) && readiness_launch(&group->readiness, &bucket))
        launch_early(group, bucket);
    engine_state.issuing = false;
    pthread_cond_broadcast(&engine_state.role_free);
    capability_give(&issuer_role);
    capability_give(&group_fields);
    capability_share(&group_fields);
    engine_unlock();
}

void
launch_wait_unused(void)
{
    if (!atomic_load(&engine_state.collectives_ready))
        return;
    speculation_await_verdict();
    role_take(); /* a thread that is launching a bucket has then launched it */
    RELAX_CAPTURES();
    speculation_wait_packed();
    CUDA("waiting for the last averages", cuEventSynchronize, engine_state.reduced);
    role_give();
}

/* ---- at a boundary ---- */

/* With lock held: the next bucket that is not launched and may be before the boundary; false if there is none. */
static bool
take_next(struct group *group, size_t *bucket_p) WITH_LOCK
{
    ASSERT(group->readiness.plan == group->plan);
    return readiness_launch_unready(&group->readiness, bucket_p);
}

static bool
take_last(struct group *group, size_t *bucket_p) WITH_LOCK
{
    return readiness_launch_last(&group->readiness, bucket_p);
}

void
launch_at_boundary(struct group *group, uint64_t producers)
{
    size_t bucket;
    const struct weight weight = weight_of(group);
    const bool speculates = group_speculates(group);
    if (speculates)
        speculation_compare(group, producers, weight_factor(&weight));
    while (ISSUER_LOCKED(take_next(group, &bucket)))
        launch_bucket(group, bucket, false);
    if (speculates)
        speculation_tell(group);
    while (ISSUER_LOCKED(take_last(group, &bucket)))
        launch_bucket(group, bucket, false);
    if (speculates)
        speculation_settle(group, weight_factor(&weight));
}

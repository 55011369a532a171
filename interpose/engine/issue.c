/*
 * issue.c - sends buckets, in the plan's order, from whichever thread made one ready.
 *
 * One thread at a time has the role of the issuer; a thread that finds it taken leaves, and the issuer sees its bucket
 * in the next round. All order between backward, reduction and optimizer is by events on the device: the host waits for
 * nothing.
 */
#include "interpose/engine/state.h"

#include "base/mutant.h"

#include <stdlib.h>
#include <unistd.h>

void
issue_take_role(void)
{
    pthread_mutex_lock(&engine_state.lock);
    while (engine_state.issuing)
        pthread_cond_wait(&engine_state.role_free, &engine_state.lock);
    engine_state.issuing = true;
    pthread_mutex_unlock(&engine_state.lock);
}

void
issue_give_role(void)
{
    pthread_mutex_lock(&engine_state.lock);
    engine_state.issuing = false;
    pthread_cond_broadcast(&engine_state.role_free);
    pthread_mutex_unlock(&engine_state.lock);
}

void
issue_wait_for_streams(uint64_t mask)
{
    const struct driver *driver = &engine_state.driver;
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i) {
        if (!(mask >> i & 1))
            continue;
        pthread_mutex_lock(&engine_state.lock);
        const struct stream_entry entry = engine_state.streams[i];
        pthread_mutex_unlock(&engine_state.lock);

        bool recorded = entry.destroyed || (entry.handle == CU_STREAM_PER_THREAD && entry.owner != gettid());
        if (!recorded)
            require_cuda(driver->cuEventRecord_p(entry.event, entry.handle), "cuEventRecord after gradients");
        if (!MUTANT(NO_PRODUCER_WAIT))
            require_cuda(driver->cuStreamWaitEvent_p(engine_state.collectives.stream, entry.event, 0),
                         "waiting for gradients");
    }
}

/* With lock held: the streams that touched the bucket's gradients since the group's last boundary. */
static uint64_t
streams_of_bucket(const struct group *group, size_t bucket)
{
    const struct plan_bucket *of = &group->plan->buckets[bucket];
    uint64_t mask = group->opaque_streams;
    for (size_t i = of->first; i < of->first + of->count; ++i)
        mask |= tensor_gradient(group, group->plan->order[i])->touched_by;
    return mask;
}

/* ---- wires: where a plan's buckets are in memory ---- */

/* Where the gradients of a bucket are now; malloc'ed. Ends the job if one of them has no memory. */
static struct bucket_member *
members_of(const struct group *group, size_t bucket)
{
    const struct plan_bucket *of = &group->plan->buckets[bucket];
    struct bucket_member *members = malloc(of->count * sizeof(*members));
    if (members == NULL)
        stop_job("out of memory");

    pthread_mutex_lock(&engine_state.lock);
    struct tensor missing = {.placed = true};
    for (size_t i = 0; i < of->count; ++i) {
        const struct tensor *tensor = tensor_gradient(group, group->plan->order[of->first + i]);
        members[i] = (struct bucket_member){tensor->address, tensor->bytes};
        if (!tensor->placed)
            missing = *tensor;
    }
    pthread_mutex_unlock(&engine_state.lock);
    if (!missing.placed)
        stop_job("gradient `%s` (%s:%d) was freed and not annotated again; annotate it after each allocation, "
                 "or say DDP_FORGET",
                 missing.site.text, missing.site.file, missing.site.line);
    return members;
}

static void
init_wire(const struct group *group, size_t bucket, const struct bucket_member *members)
{
    const struct plan_bucket *of = &group->plan->buckets[bucket];
    struct bucket_wire *wire = &group->wires[bucket];
    int type = escape_bucket_type(of);
    struct comm_error error;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    /* Allocating while some stream of the trainer captures must not end its capture. */
    require_cuda(engine_state.driver.cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
    bucket_wire_free(wire, &engine_state.driver);
    if (!bucket_wire_init(wire, &engine_state.collectives, members, of->count, type_nccl(type), type_bytes(type),
                          &error))
        stop_job("%s", error.text);
    require_cuda(engine_state.driver.cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
}

/* Gradients may have been allocated elsewhere since the bucket was last sent, or not at all until now. */
static void
follow_memory(const struct group *group, size_t bucket)
{
    struct bucket_member *members = members_of(group, bucket);
    if (!bucket_wire_has(&group->wires[bucket], members))
        init_wire(group, bucket, members);
    free(members);
}

/* Events are kept from plan to plan, and only ever added. */
static void
make_events(struct group *group, size_t count)
{
    if (count <= group->done_capacity)
        return;
    CUevent *grown = realloc(group->bucket_done, count * sizeof(*grown));
    if (grown == NULL)
        stop_job("out of memory");
    group->bucket_done = grown;
    for (size_t k = group->done_capacity; k < count; ++k)
        require_cuda(engine_state.driver.cuEventCreate_p(&grown[k], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    group->done_capacity = count;
}

void
issue_prepare_plan(struct group *group)
{
    size_t count = group->plan->bucket_count;
    require_cuda(engine_state.driver.cuStreamSynchronize_p(engine_state.collectives.stream),
                 "waiting for buckets in flight");
    for (size_t k = 0; k < group->wire_count; ++k)
        bucket_wire_free(&group->wires[k], &engine_state.driver);
    free(group->wires);
    group->wires = calloc(count + 1, sizeof(group->wires[0])); /* filled when they are first sent */
    if (group->wires == NULL)
        stop_job("out of memory");
    group->wire_count = count;
    make_events(group, count);
    trace_plan(group);
}

/* ---- sending ---- */

void
issue_bucket(struct group *group, size_t bucket, bool early)
{
    if (MUTANT(ORDER_DIFFERS) && engine_state.rendezvous.rank % 2 == 1 && (bucket ^ 1) < group->wire_count)
        bucket ^= 1;

    struct comm_error error;
    follow_memory(group, bucket);
    trace_bucket_begin(group, bucket, early);
    if (!collectives_mean(&engine_state.collectives, &group->wires[bucket], &error))
        stop_job_following("bucket %zu of step %llu: %s", bucket, (unsigned long long)engine_state.boundary_count + 1,
                           error.text);
    trace_bucket_end(group, bucket);
    require_cuda(engine_state.driver.cuEventRecord_p(group->bucket_done[bucket], engine_state.collectives.stream),
                 "cuEventRecord after a bucket");
    watch_sent("a bucket", bucket);
    if (early)
        checks_bucket_sent(group, bucket);
}

/* With lock held: the one group that may send before its boundary, if it does; else NULL. */
static struct group *
group_that_sends(void)
{
    if (engine_state.expected_group == SEQUENCE_NONE)
        return NULL;
    struct group *group = &engine_state.groups[engine_state.expected_group];
    return group->overlapping ? group : NULL;
}

void
issue_ready(void)
{
    pthread_mutex_lock(&engine_state.lock);
    if (engine_state.issuing) {
        pthread_mutex_unlock(&engine_state.lock);
        return;
    }
    size_t bucket;
    engine_state.issuing = true;
    struct group *group = group_that_sends(); /* only the issuer changes it, at a boundary */
    while (group != NULL && group->overlapping && readiness_launch(&group->readiness, &bucket)) {
        uint64_t mask = streams_of_bucket(group, bucket);
        ++group->early_buckets;
        pthread_mutex_unlock(&engine_state.lock);
        issue_wait_for_streams(mask);
        issue_bucket(group, bucket, true);
        pthread_mutex_lock(&engine_state.lock);
    }
    engine_state.issuing = false;
    pthread_cond_broadcast(&engine_state.role_free);
    pthread_mutex_unlock(&engine_state.lock);
}

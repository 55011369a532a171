/*
 * issue.c - sends buckets, in the plan's order, from whichever thread made one ready.
 *
 * One thread at a time has the role of the issuer; a thread that finds it taken leaves, and the issuer sees its bucket
 * in the next round. All order between backward, reduction and optimizer is by events on the device: the host waits for
 * nothing.
 */
#include "interpose/engine/state.h"

#include "base/clock.h"
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

/* With lock held: the streams that touched the bucket's gradients since the last boundary. */
static uint64_t
streams_of_bucket(size_t bucket)
{
    const struct plan_bucket *of = &engine_state.plan->buckets[bucket];
    uint64_t mask = engine_state.opaque_streams;
    for (size_t i = of->first; i < of->first + of->count; ++i)
        mask |= tensor_gradient(engine_state.plan->order[i])->touched_by;
    return mask;
}

/* ---- wires: where a plan's buckets are in memory ---- */

static void
init_wire(struct bucket_wire *wire, size_t bucket)
{
    const struct plan_bucket *of = &engine_state.plan->buckets[bucket];
    struct bucket_member *members = malloc(of->count * sizeof(*members));
    if (members == NULL)
        stop_job("out of memory");

    pthread_mutex_lock(&engine_state.lock);
    struct tensor missing = {.placed = true};
    for (size_t i = 0; i < of->count; ++i) {
        const struct tensor *tensor = tensor_gradient(engine_state.plan->order[of->first + i]);
        members[i] = (struct bucket_member){tensor->address, tensor->bytes};
        if (!tensor->placed)
            missing = *tensor;
    }
    pthread_mutex_unlock(&engine_state.lock);
    if (!missing.placed)
        stop_job("gradient `%s` (%s:%d) was freed and not annotated again; annotate it after each allocation, "
                 "or say DDP_FORGET",
                 missing.site.text, missing.site.file, missing.site.line);

    struct comm_error error;
    if (!bucket_wire_init(wire, &engine_state.collectives, members, of->count, type_nccl(of->type),
                          type_bytes(of->type), &error))
        stop_job("%s", error.text);
    free(members);
}

static void
free_wires(struct bucket_wire *wires, CUevent *done, size_t count)
{
    for (size_t k = 0; k < count; ++k) {
        bucket_wire_free(&wires[k], &engine_state.driver);
        (void)engine_state.driver.cuEventDestroy_p(done[k]);
    }
    free(wires);
    free(done);
}

/* The watch thread looks at the events: they change hands under the lock, when nothing waits for them. */
static void
replace_wires(struct bucket_wire *wires, CUevent *done, size_t count)
{
    pthread_mutex_lock(&engine_state.lock);
    struct bucket_wire *old_wires = engine_state.wires;
    CUevent *old_done = engine_state.bucket_done;
    size_t old_count = engine_state.wire_count;
    engine_state.wires = wires;
    engine_state.bucket_done = done;
    engine_state.wire_count = count;
    engine_state.waiting_since_ms = 0;
    pthread_mutex_unlock(&engine_state.lock);
    free_wires(old_wires, old_done, old_count);
}

void
issue_prepare_plan(void)
{
    const struct driver *driver = &engine_state.driver;
    size_t count = engine_state.plan->bucket_count;

    /* Allocating while some stream of the trainer captures must not end its capture. */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    require_cuda(driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
    require_cuda(driver->cuStreamSynchronize_p(engine_state.collectives.stream), "waiting for buckets in flight");
    replace_wires(NULL, NULL, 0); /* first: two sets of buffers may not fit */
    struct bucket_wire *wires = calloc(count + 1, sizeof(*wires));
    CUevent *done = calloc(count + 1, sizeof(*done));
    if (wires == NULL || done == NULL)
        stop_job("out of memory");
    for (size_t k = 0; k < count; ++k) {
        init_wire(&wires[k], k);
        require_cuda(driver->cuEventCreate_p(&done[k], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    }
    replace_wires(wires, done, count);
    require_cuda(driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
    trace_plan();
}

/* ---- sending ---- */

static void
note_waiting(size_t bucket)
{
    pthread_mutex_lock(&engine_state.lock);
    if (engine_state.waiting_since_ms == 0) {
        engine_state.waiting_since_ms = clock_now_ms();
        engine_state.waiting_bucket = bucket;
    }
    pthread_mutex_unlock(&engine_state.lock);
}

static void
refresh_placements(void)
{
    pthread_mutex_lock(&engine_state.lock);
    bool changed = engine_state.placements_changed;
    engine_state.placements_changed = false;
    pthread_mutex_unlock(&engine_state.lock);
    if (changed)
        issue_prepare_plan();
}

void
issue_bucket(size_t bucket, bool early)
{
    if (MUTANT(ORDER_DIFFERS) && engine_state.rendezvous.rank % 2 == 1 && (bucket ^ 1) < engine_state.wire_count)
        bucket ^= 1;

    struct comm_error error;
    refresh_placements();
    trace_bucket_begin(bucket, early);
    if (!collectives_mean(&engine_state.collectives, &engine_state.wires[bucket], &error))
        stop_job_following("bucket %zu of step %llu: %s", bucket, (unsigned long long)engine_state.boundary_count,
                           error.text);
    trace_bucket_end(bucket);
    require_cuda(engine_state.driver.cuEventRecord_p(engine_state.bucket_done[bucket], engine_state.collectives.stream),
                 "cuEventRecord after a bucket");
    note_waiting(bucket);
    if (early)
        checks_bucket_sent(bucket);
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
    while (engine_state.overlapping && readiness_launch(&engine_state.readiness, &bucket)) {
        uint64_t mask = streams_of_bucket(bucket);
        ++engine_state.early_buckets;
        pthread_mutex_unlock(&engine_state.lock);
        issue_wait_for_streams(mask);
        issue_bucket(bucket, true);
        pthread_mutex_lock(&engine_state.lock);
    }
    engine_state.issuing = false;
    pthread_cond_broadcast(&engine_state.role_free);
    pthread_mutex_unlock(&engine_state.lock);
}

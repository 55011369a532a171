/*
 * speculation.c - a bucket is reduced before it is known that nothing writes its gradients any more.
 *
 * Each call is seen, but no kernel's writes: that a gradient is complete before DDP_STEP is a guess, from steps before.
 * So a bucket is packed into memory of the engine's, with digests of what was packed, and reduced there; its gradients
 * keep this rank's values. At DDP_STEP each rank compares, when all work that may write gradients is done: a bucket is
 * stale if packing it now would give other bytes. One all-reduce of a word for each bucket tells all ranks which ones
 * are stale on any of them. The thread that calls DDP_STEP waits for that, sends those once more, whole, and only then
 * are averages written into gradients: a program that goes on after DDP_STEP has what sending everything there would
 * give it.
 *
 * A look for infinite elements and the squares of gradients are of the compared values, not of those that were guessed.
 *
 * Called at launches and boundaries, by the issuer. Order on the communication stream: all buckets, the words of all
 * ranks, buckets that are sent once more, and the writing of averages. Comparing has a stream of its own, so that it
 * takes place while the last buckets are reduced.
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/core/observer.h"
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/send/send.h"

#include "base/clock.h"
#include "comm/kernels/chunk.h"
#include "comm/wire.h"

/* No factor of a bucket whose gradients were there. */
#define WITHOUT_MEMORY (-1.0)

/* Buckets that are stale more often than this in 64 steps cost more than they gain. */
enum { STALE_AT_MOST = 2 };

/* Made once, and recorded by the issuer: the bucket that was launched last is packed, and reduced. */
static CUevent packed, reduced;

static struct {
    CUstream stream;  /* of comparing */
    CUevent compared; /* all buckets of the boundary are */
    CUevent told;     /* `heard` is there */
    CUdeviceptr words;
    uint32_t *heard; /* pinned; both [capacity + 1]: ranks on which a bucket is stale, and a word that all ranks know */
    size_t capacity;
} own GUARDED_BY(issuer_role);

static void
open_stream(void) BY_ISSUER
{
    int least = 0, greatest = 0;
    if (own.stream != NULL)
        return;
    CUDA("cuCtxGetStreamPriorityRange", cuCtxGetStreamPriorityRange, &least, &greatest);
    CUDA("cuStreamCreateWithPriority", cuStreamCreateWithPriority, &own.stream, CU_STREAM_NON_BLOCKING, greatest);
    CUDA("cuEventCreate", cuEventCreate, &packed, CU_EVENT_DISABLE_TIMING);
    CUDA("cuEventCreate", cuEventCreate, &reduced, CU_EVENT_DISABLE_TIMING);
    CUDA("cuEventCreate", cuEventCreate, &own.compared, CU_EVENT_DISABLE_TIMING);
    CUDA("cuEventCreate", cuEventCreate, &own.told, DEVICE_AWAITED_EVENT);
}

void
speculation_make_room(size_t bucket_count)
{
    open_stream();
    if (bucket_count <= own.capacity && own.heard != NULL)
        return;
    RELAX_CAPTURES();
    if (own.heard != NULL) {
        (void)engine_state.driver.cuMemFree_p(own.words);
        (void)engine_state.driver.cuMemFreeHost_p(own.heard);
    }
    const size_t bytes = SPECULATION_WORDS(bucket_count) * sizeof(uint32_t);
    own.words = device_allocate(bytes, "cuMemAlloc for the comparison of buckets");
    own.heard = device_allocate_pinned(bytes);
    own.capacity = bucket_count;
}

static struct speculation *
speculation_of(const struct group *group, size_t bucket) BY_ISSUER
{
    ASSERT(bucket < group->shipment.wire_count);
    return &group->shipment.speculations[bucket];
}

/* ---- launches ---- */

static void __attribute__((noreturn)) stop_at_bucket(size_t bucket, const struct comm_error *error)
{
    stop_job_by(error->cause, "bucket %zu of step %llu: %s", bucket,
                (unsigned long long)engine_state.boundary_count + 1, error->text);
}

/* Packs the bucket and enqueues its reduction. With `digests` it may be compared later; else it is looked at now. */
static void
send(struct speculation *of, size_t bucket, bool digests) BY_ISSUER
{
    struct comm_error error;
    struct collectives *collectives = &engine_state.collectives;
    bool sent = digests ? collectives_speculate(collectives, &of->wire, of->factor, packed, first_stream(), &error)
                        : collectives_reduce_packed(collectives, &of->wire, of->factor, first_stream(), &error);
    if (!sent)
        stop_at_bucket(bucket, &error);
}

void
speculation_discard(const struct group *group, size_t bucket)
{
    struct comm_error error;
    struct speculation *of = speculation_of(group, bucket);
    speculation_await_verdict_launching();
    wires_ensure_placed(&group->shipment, group->places, bucket, &of->wire);
    if (!collectives_discard(&engine_state.collectives, &of->wire, first_stream(), &error))
        stop_at_bucket(bucket, &error);
}

void
speculation_launch(const struct group *group, size_t bucket, double factor, bool early)
{
    struct speculation *of = speculation_of(group, bucket);
    speculation_await_verdict_launching();
    of->is_early = early;
    of->factor = factor;
    if (early && !wires_have_memory(&group->shipment, group->places, bucket)) {
        of->factor = WITHOUT_MEMORY;
        speculation_discard(group, bucket);
    } else {
        (void)wires_follow(&group->shipment, group->places, bucket, &of->wire);
        send(of, bucket, early);
    }
    if (early)
        CUDA("cuEventRecord after a bucket", cuEventRecord, reduced, first_stream());
}

void
speculation_take_back(const struct group *group)
{
    for (size_t k = 0; k < group->shipment.wire_count; ++k)
        speculation_of(group, k)->is_early = false;
}

bool
speculation_has_come(void)
{
    return reduced == NULL || engine_state.driver.cuEventQuery_p(reduced) != CUDA_ERROR_NOT_READY;
}

void
speculation_wait_packed(void)
{
    RELAX_CAPTURES();
    if (packed != NULL)
        CUDA("waiting until gradients are packed", cuEventSynchronize, packed);
}

/* ---- comparing ---- */

static CUdeviceptr
word_of(size_t bucket) BY_ISSUER
{
    return own.words + bucket * sizeof(uint32_t);
}

/* What all ranks put into the last word: its sum shows that all of them have taken part in this step's. */
static uint32_t
known_word(void)
{
    return 1 + (uint32_t)(engine_state.boundary_count & 0xffff);
}

/* The bucket's word becomes 1 if it is stale on this rank. */
static void
compare(const struct group *group, size_t bucket, double factor) BY_ISSUER
{
    struct comm_error error;
    struct speculation *of = speculation_of(group, bucket);
    bool stands = wires_stand(&group->shipment, group->places, bucket, &of->wire) && of->factor == factor;
    of->is_compared = stands;
    if (!stands) /* gradients are elsewhere by now, or count otherwise */
        CUDA("marking a stale bucket", cuMemsetD32Async, word_of(bucket), 1, 1, own.stream);
    else if (!wire_compare(&of->wire, &engine_state.collectives.setting, factor, word_of(bucket), own.stream, &error))
        stop_at_bucket(bucket, &error);
}

void
speculation_compare(const struct group *group, uint64_t producers, double factor)
{
    const size_t count = group->shipment.wire_count;
    ASSERT(count <= own.capacity);
    CUDA("waiting for packed buckets", cuStreamWaitEvent, own.stream, packed, 0);
    CUDA("waiting for the last averages", cuStreamWaitEvent, own.stream, engine_state.reduced, 0);
    streams_wait_for_producers(producers, own.stream);
    CUDA("cuMemsetD8Async", cuMemsetD8Async, own.words, 0, count * sizeof(uint32_t), own.stream);
    CUDA("cuMemsetD32Async", cuMemsetD32Async, word_of(count), known_word(), 1, own.stream);
    for (size_t k = 0; k < count; ++k) {
        speculation_of(group, k)->is_compared = false;
        if (speculation_of(group, k)->is_early)
            compare(group, k, factor);
    }
    CUDA("cuEventRecord after comparing", cuEventRecord, own.compared, own.stream);
}

void
speculation_tell(const struct group *group)
{
    static const char what[] = RANK_WAIT_COMPARISON;
    struct comm_error error;
    const size_t words = SPECULATION_WORDS(group->shipment.wire_count);
    CUDA("waiting for the comparison", cuStreamWaitEvent, first_stream(), own.compared, 0);
    inflight_sending(what, engine_state.boundary_count + 1, COMMUNICATOR_ENGINE);
    if (!collectives_add_words(&engine_state.collectives, own.words, words, first_stream(), &error))
        stop_job_by(error.cause, "%s: %s", what, error.text);
    CUDA("copying the verdict", cuMemcpyDtoHAsync, own.heard, own.words, words * sizeof(uint32_t), first_stream());
    CUDA("cuEventRecord after the verdict", cuEventRecord, own.told, first_stream());
    inflight_sent(what, engine_state.boundary_count + 1, COMMUNICATOR_ENGINE);
}

/* ---- the verdict ---- */

static void
wait_for_verdict(void) BY_ISSUER
{
    int64_t begin_us = clock_now_us();
    RELAX_CAPTURES(); /* for the wait */
    range_begin("waits for the comparison of step %llu", (unsigned long long)engine_state.boundary_count + 1);
    atomic_store(&engine_state.status->in_step, 1);
    device_await(own.told, "waiting for the comparison of buckets");
    atomic_store(&engine_state.status->in_step, 0);
    range_end();
    commit_wait_waited((clock_now_us() - begin_us) * 1000);
}

/* This step's. */
static struct verdict
verdict_of(const struct group *group) BY_ISSUER
{
    return (struct verdict){.step = engine_state.boundary_count + 1,
                            .group = group->id,
                            .come = own.told,
                            .heard = own.heard,
                            .bucket_count = group->shipment.wire_count,
                            .known = (uint32_t)engine_state.rendezvous.world_size * known_word()};
}

/* What came is not what all ranks have sent. */
static void __attribute__((noreturn)) stop_damaged(const struct verdict *verdict)
{
    stop_job("step %llu: the ranks' words about their buckets came damaged through NCCL (%u in place of %u): averages "
             "may be damaged, too; look for faults of GPUs, links and NCCL",
             (unsigned long long)verdict->step, verdict->heard[verdict->bucket_count], verdict->known);
}

/* Which members of the bucket were written after it was packed, on this rank: [member_count], malloc'ed; NULL: that is
 * not known. */
static bool *
find_written(const struct speculation *of) BY_ISSUER
{
    if (!of->is_compared || of->factor == 0)
        return NULL;
    uint64_t *digests = engine_calloc(of->wire.chunk_count, sizeof(*digests));
    bool *written = engine_calloc(of->wire.member_count, sizeof(*written));
    CUDA("copying digests", cuMemcpyDtoHAsync, digests, of->wire.digests, of->wire.chunk_count * sizeof(*digests),
         own.stream);
    CUDA("copying digests", cuStreamSynchronize, own.stream);
    wire_find_stale(&of->wire, digests, written);
    free(digests);
    return written;
}

/* The gradient that is a bucket's member, by its number in the group. */
static size_t
gradient_of_member(const struct group *group, size_t bucket, size_t member) BY_ISSUER
{
    const struct plan_bucket *planned = &group->plan->buckets[bucket];
    return group->plan->pieces[group->shipment.send_order[planned->first + member]].gradient;
}

/* Gradients of the bucket that were written after it was packed, on this rank, are remembered. */
static void
note_written(struct group *group, size_t bucket) BY_ISSUER
{
    const struct speculation *of = speculation_of(group, bucket);
    bool *written = find_written(of);
    if (written == NULL)
        return;
    issuer_lock();
    for (size_t i = 0; i < of->wire.member_count; ++i) {
        if (written[i])
            tensor_gradient(group, gradient_of_member(group, bucket, i))->stale_steps |= 1;
    }
    issuer_unlock();
    free(written);
}

/* All ranks send the bucket once more, from its gradients' present values. */
static void
repair(struct group *group, size_t bucket, double factor) BY_ISSUER
{
    struct speculation *of = speculation_of(group, bucket);
    note_written(group, bucket);
    of->stale_steps |= 1;
    (void)wires_follow(&group->shipment, group->places, bucket, &of->wire);
    of->factor = factor;
    inflight_sending("bucket", bucket, COMMUNICATOR_ENGINE);
    send(of, bucket, of->is_compared || !of->is_early);
    inflight_sent("bucket", bucket, COMMUNICATOR_ENGINE);
    flight_note(FLIGHT_BUCKET, bucket, group->plan->buckets[bucket].bytes, "once more");
}

/* Whether the bucket is stale so often that its gradients had better wait: the same on all ranks. */
static bool
is_often_stale(const struct speculation *of)
{
    return __builtin_popcountll(of->stale_steps) > STALE_AT_MOST;
}

/* A new step counts: the oldest of 64 is forgotten. */
static void
shift_steps(struct group *group) BY_ISSUER
{
    for (size_t k = 0; k < group->shipment.wire_count; ++k)
        speculation_of(group, k)->stale_steps <<= 1;
    issuer_lock();
    for (size_t i = 0; i < group->gradient_count; ++i)
        tensor_gradient(group, i)->stale_steps <<= 1;
    issuer_unlock();
}

/* With lock held: gradients that were written too often after their bucket was packed wait for DDP_STEP, where ranks
 * agree on it. */
static void
give_up_written(struct group *group) ISSUER_WITH_LOCK
{
    for (size_t i = 0; i < group->gradient_count; ++i) {
        struct tensor *tensor = tensor_gradient(group, i);
        if (__builtin_popcountll(tensor->stale_steps) <= STALE_AT_MOST)
            continue;
        tensor->stale_steps = 0;
        tensor->is_rewritten = true;
        history_note_unsteady(&group->history, i);
    }
}

/* Sends once more what is stale on some rank. Returns the number of such buckets; *is_often_p: one is stale often. */
static size_t
repair_stale(struct group *group, double factor, bool *is_often_p) BY_ISSUER
{
    size_t stale = 0;
    *is_often_p = false;
    for (size_t k = 0; k < group->shipment.wire_count; ++k) {
        if (own.heard[k] == 0)
            continue;
        repair(group, k, factor);
        *is_often_p = *is_often_p || is_often_stale(speculation_of(group, k));
        ++stale;
    }
    return stale;
}

/* Averages are written into gradients. */
static void
commit(const struct group *group) BY_ISSUER
{
    struct comm_error error;
    for (size_t k = 0; k < group->shipment.wire_count; ++k) {
        struct speculation *of = speculation_of(group, k);
        if (of->is_allowed && !collectives_commit(&engine_state.collectives, &of->wire, first_stream(), &error))
            stop_at_bucket(k, &error);
        of->is_early = false;
    }
}

/* The same, if the device finds the verdict clean. */
static void
commit_on_trust(const struct group *group, const struct verdict *verdict) BY_ISSUER
{
    struct comm_error error;
    const struct chunk_guard guard = {own.words, (uint32_t)verdict->bucket_count, verdict->known};
    for (size_t k = 0; k < group->shipment.wire_count; ++k) {
        struct speculation *of = speculation_of(group, k);
        if (of->is_allowed &&
            !collectives_commit_guarded(&engine_state.collectives, &of->wire, &guard, first_stream(), &error))
            stop_at_bucket(k, &error);
        of->was_early = of->is_early;
        of->is_early = false;
    }
}

/* ---- a verdict that comes too late for a repair ---- */

#define TOO_LATE "--commit trust cannot repair that; run the program without it"

/* Ends the job if the bucket is stale because of this rank. */
static void
refuse_own(const struct group *group, size_t bucket, unsigned long long step) BY_ISSUER
{
    const struct speculation *of = speculation_of(group, bucket);
    bool *written = find_written(of);
    if (of->was_early && !of->is_compared)
        stop_job("step %llu: gradients of bucket %zu have moved, or were given another weight, after the bucket was "
                 "launched: " TOO_LATE,
                 step, bucket);
    for (size_t i = 0; written != NULL && i < of->wire.member_count; ++i) {
        if (!written[i])
            continue;
        const struct tensor tensor = ISSUER_LOCKED(*tensor_gradient(group, gradient_of_member(group, bucket, i)));
        stop_job("step %llu: %s was written after its bucket was launched: " TOO_LATE, step, tensor_text(&tensor));
    }
    free(written);
}

/* Ends the job, by the gradient that was written, after a verdict that is not clean: no later bucket is packed yet. */
static void __attribute__((noreturn)) refuse(const struct verdict *verdict) BY_ISSUER
{
    const struct group *group = &memory_state.groups[verdict->group];
    const unsigned long long step = (unsigned long long)verdict->step;
    if (trust_judge(verdict) == VERDICT_DAMAGED)
        stop_damaged(verdict);
    for (size_t k = 0; k < verdict->bucket_count; ++k) {
        if (verdict->heard[k] > 0)
            refuse_own(group, k, step);
    }
    stop_job_by(COMM_OTHERS,
                "step %llu: a gradient was written on another rank after its bucket was launched: " TOO_LATE, step);
}

void
speculation_await_verdict_launching(void)
{
    struct verdict verdict;
    if (!trust_settle(&verdict))
        refuse(&verdict);
}

/* Not analysed: the job ends with the role. */
void NOT_ANALYSED
speculation_await_verdict(void)
{
    struct verdict verdict;
    if (atomic_load(&engine_state.context_ended) || trust_settle(&verdict))
        return;
    if (!role_is_mine())
        role_take(); /* a thread that has it ends the job, too */
    refuse(&verdict);
}

/* Counts them; gradients that are written late too often wait for DDP_STEP, and where that is seen to be so on all
 * ranks (`is_often`), the plan is voted on at once. */
static void
note_repairs(struct group *group, size_t stale, bool is_often) BY_ISSUER
{
    atomic_fetch_add(&engine_state.status->repaired_steps, 1);
    atomic_fetch_add(&engine_state.status->repaired_buckets, stale);
    issuer_lock();
    give_up_written(group);
    group->asks_for_vote = group->asks_for_vote || is_often;
    issuer_unlock();
}

void
speculation_settle(struct group *group, double factor)
{
    bool is_often;
    const struct verdict verdict = verdict_of(group);
    if (trust_holds(group)) {
        trust_await(&verdict);
        commit_on_trust(group, &verdict);
        shift_steps(group);
        return;
    }
    wait_for_verdict();
    if (trust_judge(&verdict) == VERDICT_DAMAGED)
        stop_damaged(&verdict);
    shift_steps(group);
    size_t stale = repair_stale(group, factor, &is_often);
    commit(group);
    trust_note(group, stale);
    if (stale > 0)
        note_repairs(group, stale, is_often);
}

/*
 * checks.c - is what we believe true?
 *
 * Gradients: over the first overlapped steps all of them, later one bucket every K steps, are hashed after their
 * reduction and again at the boundary: a write that nobody saw would show. In the first steps the host goes on only
 * when a bucket that left early is reduced and hashed: else such a write could fall into the reduction itself, between
 * packing and unpacking, and be overwritten without a trace. Parameters: their hashes are compared across all ranks
 * after the first overlapped steps and then every K. Both run in the order of the communication stream; a difference
 * ends the job. Touches after their bucket has left are in late.c.
 */
#include "interpose/engine/state.h"

#include "base/clock.h"
#include "base/mutant.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FIRST_STEPS = 3, NO_BUCKET = -1, EVERY_BUCKET = -2 };

/* A gradient's hash after its reduction; written and read by host functions, in the communication stream's order. */
struct gradient_check {
    struct ddp_site site;
    uint64_t step; /* number of the boundary that it belongs to, from 1 */
    uint64_t reduced_hash;
    _Atomic bool reduced; /* and hashed */
};

/* Hashes of all parameters on their way to the other ranks. */
struct parameter_check {
    size_t count;
    CUdeviceptr send, receive; /* device: count, and count for each rank */
    uint64_t *send_words;      /* pinned */
    uint64_t *receive_words;   /* pinned */
    uint64_t after_step;       /* boundaries passed when they were hashed */
    bool under_way;            /* between before_release and after_release */
};

/* What is checked of a group in its current interval. */
struct group_check {
    long checked_bucket;             /* a bucket, NO_BUCKET or EVERY_BUCKET */
    struct gradient_check **pending; /* [capacity]: by number in the group, hashed after their reduction */
    size_t capacity;
};

static struct {
    struct hasher *hasher; /* of the communication stream */
    struct group_check groups[GROUPS_AT_MOST];
    struct parameter_check parameters;
    uint64_t compared_step;  /* boundaries passed when parameters were last hashed: a graph passes several at once */
    uint64_t impatient_step; /* the step in which a bucket was waited for in vain, counted from 1; 0: none */

    uint64_t *final_words; /* hashes of the parameters when the first of them was freed, or at the end */
    size_t final_count;
    uint64_t final_step; /* boundaries passed then */
    bool final_known;
} checks;

static CUstream
comm_stream(void)
{
    return engine_state.collectives.stream;
}

static void
store_hash(void *arg, uint64_t hash)
{
    *(uint64_t *)arg = hash;
}

/* ---- preparation ---- */

static void
free_parameter_check(void)
{
    const struct driver *driver = &engine_state.driver;
    struct parameter_check *check = &checks.parameters;
    if (check->count > 0) {
        (void)driver->cuMemFree_p(check->send);
        (void)driver->cuMemFree_p(check->receive);
        (void)driver->cuMemFreeHost_p(check->send_words);
        (void)driver->cuMemFreeHost_p(check->receive_words);
    }
    *check = (struct parameter_check){0};
}

static void
prepare_parameters(size_t count)
{
    const struct driver *driver = &engine_state.driver;
    struct parameter_check *check = &checks.parameters;
    if (count == check->count)
        return;

    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    require_cuda(driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
    require_cuda(driver->cuStreamSynchronize_p(comm_stream()), "waiting for checks in flight");
    free_parameter_check();
    size_t bytes = count * sizeof(uint64_t), all = bytes * (size_t)engine_state.rendezvous.world_size;
    if (count > 0) {
        require_cuda(driver->cuMemAlloc_p(&check->send, bytes), "cuMemAlloc for parameter hashes");
        require_cuda(driver->cuMemAlloc_p(&check->receive, all), "cuMemAlloc for parameter hashes");
        require_cuda(driver->cuMemHostAlloc_p((void **)&check->send_words, bytes, 0), "cuMemHostAlloc");
        require_cuda(driver->cuMemHostAlloc_p((void **)&check->receive_words, all, 0), "cuMemHostAlloc");
    }
    check->count = count;
    require_cuda(driver->cuThreadExchangeStreamCaptureMode_p(&mode), "cuThreadExchangeStreamCaptureMode");
}

static void
prepare_group(const struct group *group)
{
    struct group_check *check = &checks.groups[group->id];
    size_t count = group->gradient_count;
    check->checked_bucket = NO_BUCKET;
    if (count <= check->capacity)
        return;
    struct gradient_check **grown = realloc(check->pending, count * sizeof(*grown));
    if (grown == NULL)
        stop_job("out of memory");
    memset(grown + check->capacity, 0, (count - check->capacity) * sizeof(*grown));
    check->pending = grown;
    check->capacity = count;
}

void
checks_prepare(void)
{
    if (checks.hasher == NULL)
        checks.hasher = hasher_get();
    for (int g = 0; g < GROUPS_AT_MOST; ++g)
        prepare_group(&engine_state.groups[g]);
    prepare_parameters(engine_state.parameter_count);
}

void
checks_next_interval(const struct group *group)
{
    uint64_t every = engine_state.options.check_every;
    long *checked = &checks.groups[group->id].checked_bucket;
    *checked = NO_BUCKET;
    if (group->overlapping && (group->overlapped_steps < FIRST_STEPS || engine_state.options.verify))
        *checked = EVERY_BUCKET;
    else if (group->overlapping && every > 0 && group->boundary_count % every == 0)
        *checked = (long)(group->boundary_count / every % group->plan->bucket_count);
}

/* ---- gradients: unchanged between their reduction and the boundary ---- */

static void
note_reduced(void *arg, uint64_t hash)
{
    struct gradient_check *check = arg;
    check->reduced_hash = hash;
    atomic_store(&check->reduced, true);
}

enum { PATIENCE_US = 5000000, SPIN_US = 300 };

/*
 * Not for ever, and in vain only once in a step: another rank may have to hear of this one first (a DDP_MEAN within
 * backward). A check that was not waited for is as good as those of later steps.
 */
static void
wait_until_reduced(const struct gradient_check *check)
{
    int64_t begin_us = clock_now_us(), waited_us = 0;
    uint64_t step = engine_state.boundary_count + 1;
    while (!atomic_load(&check->reduced) && checks.impatient_step != step) {
        if (waited_us < SPIN_US)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        waited_us = clock_now_us() - begin_us;
        if (waited_us >= PATIENCE_US)
            checks.impatient_step = step;
    }
}

void
checks_bucket_sent(const struct group *group, size_t bucket)
{
    struct group_check *checked = &checks.groups[group->id];
    if (checked->checked_bucket != EVERY_BUCKET && checked->checked_bucket != (long)bucket)
        return;
    const struct plan_bucket *of = &group->plan->buckets[bucket];
    struct gradient_check *last = NULL;
    issue_join(); /* it may have gone through another communicator */
    for (size_t i = of->first; i < of->first + of->count; ++i) {
        size_t gradient = group->plan->pieces[i].gradient;
        if (group->plan->last_bucket_of[gradient] != bucket) /* its other pieces are still to be reduced */
            continue;
        pthread_mutex_lock(&engine_state.lock);
        struct tensor tensor = *tensor_gradient(group, gradient);
        pthread_mutex_unlock(&engine_state.lock);

        struct gradient_check *check = malloc(sizeof(*check));
        if (check == NULL)
            stop_job("out of memory");
        *check = (struct gradient_check){.site = tensor.site, .step = engine_state.boundary_count + 1};
        hasher_enqueue(checks.hasher, comm_stream(), tensor.address, tensor.bytes, note_reduced, check);
        checked->pending[gradient] = last = check;
    }
    if (last != NULL && checked->checked_bucket == EVERY_BUCKET)
        wait_until_reduced(last);
}

static void
compare_gradient(void *arg, uint64_t hash)
{
    struct gradient_check *check = arg;
    if (hash != check->reduced_hash && !MUTANT(CONTENT_UNCHECKED))
        stop_job_soon(
            "gradient `%s` (%s:%d) was changed after it had been averaged and before DDP_STEP number %llu, by work "
            "that ddprun did not see (a pointer in device memory?); run with --no-overlap",
            check->site.text, check->site.file, check->site.line, (unsigned long long)check->step);
    free(check);
}

static void
compare_gradients(const struct group *group)
{
    struct group_check *checked = &checks.groups[group->id];
    for (size_t gradient = 0; gradient < checked->capacity; ++gradient) {
        if (checked->pending[gradient] == NULL)
            continue;
        pthread_mutex_lock(&engine_state.lock);
        struct tensor tensor = *tensor_gradient(group, gradient);
        pthread_mutex_unlock(&engine_state.lock);
        tensor_refuse_freed(&tensor);
        hasher_enqueue(checks.hasher, comm_stream(), tensor.address, tensor.bytes, compare_gradient,
                       checked->pending[gradient]);
        checked->pending[gradient] = NULL;
    }
}

/* ---- parameters: the same on all ranks ---- */

/* With lock held: parameter number `index`. */
static const struct tensor *
find_parameter(size_t index)
{
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        const struct tensor *tensor = &engine_state.tensors[i];
        if (tensor->role == TENSOR_PARAMETER && tensor->index == index)
            return tensor;
    }
    return NULL;
}

/* In the place of the hash of a parameter that has no memory: it is not compared. */
enum { NO_HASH = 0 };

static void CUDA_CB
store_no_hash(void *word)
{
    *(uint64_t *)word = NO_HASH;
}

/* The issuer: hashes every parameter that has memory into words[]; false if none has. */
static bool
hash_parameters(uint64_t *words, size_t count)
{
    bool any = false;
    for (size_t i = 0; i < count; ++i) {
        pthread_mutex_lock(&engine_state.lock);
        const struct tensor *found = find_parameter(i);
        struct tensor tensor = found != NULL ? *found : (struct tensor){.placed = false};
        pthread_mutex_unlock(&engine_state.lock);
        if (tensor.placed)
            hasher_enqueue(checks.hasher, comm_stream(), tensor.address, tensor.bytes, store_hash, &words[i]);
        else /* in the stream's order, as hashes are: the word may still be on its way from the last comparison */
            require_cuda(engine_state.driver.cuLaunchHostFunc_p(comm_stream(), store_no_hash, &words[i]),
                         "cuLaunchHostFunc");
        any = any || tensor.placed;
    }
    return any;
}

/* They are then as the boundaries before have left them. */
bool
checks_parameters_due(const struct group *group)
{
    uint64_t every = engine_state.options.check_every, steps = engine_state.boundary_count;
    if (engine_state.parameter_count == 0 || steps == 0)
        return false;
    return (group->overlapping && group->overlapped_steps >= 1 && group->overlapped_steps <= FIRST_STEPS) ||
           (engine_state.graph_launches >= 1 && engine_state.graph_launches <= FIRST_STEPS) ||
           (every > 0 && steps / every > checks.compared_step / every) || engine_state.options.verify;
}

void
checks_before_release(const struct group *group)
{
    compare_gradients(group);
    if (!checks_parameters_due(group))
        return;
    prepare_parameters(engine_state.parameter_count);
    struct parameter_check *check = &checks.parameters;
    check->after_step = checks.compared_step = engine_state.boundary_count;
    (void)hash_parameters(check->send_words, check->count);
    check->under_way = true; /* whatever is freed here: all ranks take part */
}

/* What everybody's hashes say; `after_step` belongs to this comparison, the words to the whole run. */
struct comparison {
    uint64_t after_step;
};

/* Ends the job soon if words[rank][parameter] differ between ranks; the hash of all of them otherwise. False also if
 * there was nothing to compare. */
static bool
compare_words(const uint64_t *words, size_t count, uint64_t after_step, uint64_t *hash_p)
{
    bool compared = false;
    for (int r = 1; r < engine_state.rendezvous.world_size; ++r) {
        for (size_t i = 0; i < count; ++i) {
            uint64_t mine = words[i], theirs = words[(size_t)r * count + i];
            if (mine == NO_HASH || theirs == NO_HASH)
                continue;
            compared = true;
            if (mine == theirs || MUTANT(PARAMETERS_UNCHECKED))
                continue;
            pthread_mutex_lock(&engine_state.lock);
            const struct tensor *tensor = find_parameter(i);
            struct ddp_site site = tensor != NULL ? tensor->site : (struct ddp_site){"?", "?", 0};
            pthread_mutex_unlock(&engine_state.lock);
            stop_job_soon(
                "parameter `%s` (%s:%d) differs between ranks 0 and %d after step %llu: a gradient is missing among "
                "the annotations, a DDP_STEP does not stand between backward and the optimizer (behind it, one too "
                "many or one too few), or the update depends on something that is not the same on all ranks",
                site.text, site.file, site.line, r, (unsigned long long)after_step);
            return false;
        }
    }
    *hash_p = XXH3_64bits(words, count * sizeof(words[0]));
    return compared;
}

static void
note_equal(uint64_t after_step, uint64_t hash)
{
    struct rank_status *status = engine_state.status;
    atomic_store(&status->parameter_hash, hash);
    atomic_store(&status->checked_step, after_step);
    atomic_fetch_add(&status->check_count, 1);
}

static void CUDA_CB
compare_parameters(void *data)
{
    struct comparison *comparison = data;
    uint64_t hash;
    if (compare_words(checks.parameters.receive_words, checks.parameters.count, comparison->after_step, &hash))
        note_equal(comparison->after_step, hash);
    free(comparison);
}

void
checks_after_release(void)
{
    struct parameter_check *check = &checks.parameters;
    if (!check->under_way)
        return;
    check->under_way = false;

    const struct driver *driver = &engine_state.driver;
    struct comm_error error;
    struct comparison *comparison = malloc(sizeof(*comparison));
    if (comparison == NULL)
        stop_job("out of memory");
    comparison->after_step = check->after_step;

    size_t bytes = check->count * sizeof(uint64_t), all = bytes * (size_t)engine_state.rendezvous.world_size;
    require_cuda(driver->cuMemcpyHtoDAsync_p(check->send, check->send_words, bytes, comm_stream()),
                 "copying parameter hashes");
    watch_sending("the comparison of parameters", check->after_step, 0);
    if (!collectives_gather_words(&engine_state.collectives, check->send, check->receive, check->count, &error))
        stop_job_by(error.cause, "comparing parameters: %s", error.text);
    require_cuda(driver->cuMemcpyDtoHAsync_p(check->receive_words, check->receive, all, comm_stream()),
                 "copying parameter hashes");
    require_cuda(driver->cuLaunchHostFunc_p(comm_stream(), compare_parameters, comparison), "cuLaunchHostFunc");
    watch_sent("the comparison of parameters", check->after_step, 0);
}

/* ---- the end ---- */

void
checks_final_hash(void)
{
    size_t count = engine_state.parameter_count;
    if (!atomic_load(&engine_state.collectives_ready) || atomic_load(&engine_state.context_ended) || count == 0 ||
        checks.hasher == NULL || (checks.final_known && checks.final_step == engine_state.boundary_count))
        return;
    if (atomic_load(&engine_state.captures_open) > 0) { /* waiting for the whole device would break them */
        require_cuda(engine_state.driver.cuStreamSynchronize_p(comm_stream()), "waiting for the last comparison");
        return;
    }

    context_synchronize("at the end");
    uint64_t *words = realloc(checks.final_words, count * sizeof(*words));
    if (words == NULL)
        stop_job("out of memory");
    checks.final_words = words;
    issue_take_role();
    checks.final_known = hash_parameters(words, count);
    require_cuda(engine_state.driver.cuStreamSynchronize_p(comm_stream()), "hashing parameters at the end");
    issue_give_role();
    checks.final_count = count;
    checks.final_step = engine_state.boundary_count;
}

void
checks_at_end(void)
{
    bool known = checks.final_known && checks.final_step == engine_state.boundary_count;
    size_t count = known ? checks.final_count : 0;
    uint64_t *mine = malloc((2 + count) * sizeof(*mine));
    if (mine == NULL)
        stop_job("out of memory");
    mine[0] = engine_state.boundary_count;
    mine[1] = known;
    if (count > 0)
        memcpy(mine + 2, checks.final_words, count * sizeof(*mine));

    struct control_messages all;
    if (!agree_exchange_last(mine, (2 + count) * sizeof(*mine), &all)) {
        /* By _exit(), after as many steps as this rank, or the launcher names it: it knows all ranks' steps. */
        engine_state.alone_at_end = true;
        free(mine);
        stop_if_asked();
        return;
    }

    uint64_t *words = calloc((size_t)all.count * count + 1, sizeof(*words));
    if (words == NULL)
        stop_job("out of memory");
    for (int r = 0; r < all.count; ++r) {
        const uint64_t *theirs = all.messages[r];
        if (theirs[0] != mine[0])
            stop_job("rank %d ended after %llu steps, rank %d after %llu: all ranks must make the same number of steps",
                     engine_state.rendezvous.rank, (unsigned long long)mine[0], r, (unsigned long long)theirs[0]);
        known = known && theirs[1] == 1 && all.bytes[r] == (2 + count) * sizeof(*mine);
        if (known)
            memcpy(words + (size_t)r * count, theirs + 2, count * sizeof(*words));
    }

    uint64_t hash;
    if (known && compare_words(words, count, mine[0], &hash))
        note_equal(mine[0], hash);
    stop_if_asked();
    control_free_messages(&all);
    free(words);
    free(mine);
}

/*
 * agree.c - what the ranks must agree on before they act: annotations, and plans.
 *
 * All of it goes through the control plane, at places that every rank passes the same number of times: an annotation of
 * a parameter, the first boundary after annotations changed, and a few boundaries at which ranks ask each other whether
 * their steps repeat. No rank acts on what it alone has learned.
 */
#include "interpose/engine/state.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- driver and collectives, when first needed ---- */

void
agree_ensure_driver(const struct ddp_site *site)
{
    if (atomic_load(&engine_state.driver_ready))
        return;
    struct driver driver;
    struct comm_error error;
    if (engine_state.services->driver_function("cuInit", 2000) == NULL)
        stop_job(
            "%s:%d annotates memory, but no call to the CUDA driver has passed through ddprun: the preload does not "
            "reach it (a driver loaded with RTLD_DEEPBIND, or under another name?)",
            site->file, site->line);
    if (!driver_fill(&driver, engine_state.services->driver_function, &error))
        stop_job("%s", error.text);

    pthread_mutex_lock(&engine_state.lock);
    if (!atomic_load(&engine_state.driver_ready)) {
        engine_state.driver = driver;
        atomic_store(&engine_state.driver_ready, true);
    }
    pthread_mutex_unlock(&engine_state.lock);
}

void
agree_ensure_events(void)
{
    pthread_mutex_lock(&engine_state.lock);
    bool made = engine_state.streams[0].event != NULL;
    pthread_mutex_unlock(&engine_state.lock);
    if (made)
        return;

    CUcontext before = context_enter();
    CUevent events[STREAMS_AT_MOST];
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i)
        require_cuda(engine_state.driver.cuEventCreate_p(&events[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    pthread_mutex_lock(&engine_state.lock);
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i)
        engine_state.streams[i].event = events[i];
    pthread_mutex_unlock(&engine_state.lock);
    context_leave(before);
}

void
agree_ensure_collectives(void)
{
    if (atomic_load(&engine_state.collectives_ready))
        return;
    struct comm_error error;
    if (!nccl_open(&engine_state.nccl, engine_state.options.nccl_path, engine_state.services->exempt_library, &error))
        stop_job("%s", error.text);

    issue_take_role();
    const struct collectives_options wanted = {.reduction = engine_state.options.reduction,
                                               .compression = engine_state.options.compression,
                                               .communicator_count = engine_state.options.communicator_count,
                                               .timeout_s = engine_state.options.timeout_s,
                                               .kernels_path = engine_state.options.kernels_path};
    if (!collectives_open(&engine_state.collectives, &engine_state.driver, &engine_state.nccl, &engine_state.rendezvous,
                          &wanted, &error))
        stop_job_following("%s", error.text);
    require_cuda(engine_state.driver.cuEventCreate_p(&engine_state.reduced, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    for (unsigned i = 0; i < engine_state.collectives.communicator_count; ++i)
        require_cuda(engine_state.driver.cuEventCreate_p(&engine_state.awaited[i].event, CU_EVENT_DISABLE_TIMING),
                     "cuEventCreate");
    start_end_before_driver();
    atomic_store(&engine_state.collectives_ready, true);
    issue_give_role();
    watch_start();
}

/* ---- annotations ---- */

enum { TEXT_BYTES = 64 };

/* One annotation, as ranks show it to each other. */
struct described {
    uint64_t count;
    int32_t type;
    int32_t line;
    char text[TEXT_BYTES];
    char file[TEXT_BYTES];
};

static struct described
describe(const struct tensor *tensor)
{
    struct described described = {.count = tensor->count, .type = tensor->type, .line = tensor->site.line};
    snprintf(described.text, sizeof(described.text), "%s", tensor->site.text);
    const char *slash = strrchr(tensor->site.file, '/');
    snprintf(described.file, sizeof(described.file), "%s", slash != NULL ? slash + 1 : tensor->site.file);
    return described;
}

static bool
is_same(const struct described *a, const struct described *b)
{
    return a->count == b->count && a->type == b->type;
}

/* Compares what everyone described with rank 0; ends the job, naming both ranks and sizes, at the first difference. */
static void
compare_described(const struct control_messages *all, const char *what)
{
    const struct described *zero = all->messages[0];
    size_t zero_count = all->bytes[0] / sizeof(*zero);
    for (int r = 1; r < all->count; ++r) {
        const struct described *other = all->messages[r];
        size_t other_count = all->bytes[r] / sizeof(*other);
        size_t common = other_count < zero_count ? other_count : zero_count;
        for (size_t i = 0; i < common; ++i) {
            if (!is_same(&zero[i], &other[i]))
                stop_job("ranks 0 and %d annotate different %ss: `%s` (%s:%d) is %llu %s on rank 0, "
                         "`%s` (%s:%d) is %llu %s on rank %d",
                         r, what, zero[i].text, zero[i].file, zero[i].line, (unsigned long long)zero[i].count,
                         type_name(zero[i].type), other[i].text, other[i].file, other[i].line,
                         (unsigned long long)other[i].count, type_name(other[i].type), r);
        }
        if (other_count != zero_count)
            stop_job("rank 0 annotates %zu %ss, rank %d annotates %zu; the first that only one has is `%s` (%s:%d)",
                     zero_count, what, r, other_count, (other_count > zero_count ? other : zero)[common].text,
                     (other_count > zero_count ? other : zero)[common].file,
                     (other_count > zero_count ? other : zero)[common].line);
    }
}

void
agree_exchange(const char *about, const void *mine, size_t bytes, struct control_messages *all)
{
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    struct comm_error error;
    struct rank_status *status = engine_state.status;
    if (atomic_flag_test_and_set(&busy))
        stop_job("two threads make ddprun calls at the same time that involve the other ranks (%s is one of them): "
                 "DDP_PARAMETER, DDP_STEP and DDP_MEAN must come from one thread at a time",
                 about);
    snprintf(status->place, sizeof(status->place), "%s", about);
    atomic_store(&status->waits, 1);
    if (!control_exchange(&engine_state.control, about, mine, bytes, all, &error))
        stop_job_following("%s", error.text);
    atomic_store(&status->waits, 0);
    atomic_flag_clear(&busy);
}

void
agree_on_parameter(const struct tensor *tensor)
{
    char about[100];
    struct control_messages all;
    struct described mine = describe(tensor);
    snprintf(about, sizeof(about), "DDP_PARAMETER number %zu", tensor->index + 1);
    agree_exchange(about, &mine, sizeof(mine), &all);
    compare_described(&all, "parameter");
    control_free_messages(&all);
}

void
agree_annotations_changed(void)
{
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        engine_state.opaque_streams |= engine_state.tensors[i].touched_by;
        engine_state.tensors[i].touched_by = 0;
    }
    engine_state.overlapping = false;
    engine_state.annotations_changed = true;
}

/* With lock held: all gradients as ranks show them; NULL when memory runs out. */
static struct described *
describe_gradients(void)
{
    struct described *described = calloc(engine_state.gradient_count + 1, sizeof(*described));
    for (size_t i = 0; described != NULL && i < engine_state.gradient_count; ++i)
        described[i] = describe(tensor_gradient(i));
    return described;
}

/* ---- plans ---- */

/* A plan over the gradients as annotated. */
static struct plan *
build_plan(uint32_t version, const size_t *order)
{
    size_t count = engine_state.gradient_count;
    struct plan_gradient *gradients = calloc(count + 1, sizeof(*gradients));
    if (gradients == NULL)
        stop_job("out of memory");
    pthread_mutex_lock(&engine_state.lock);
    for (size_t i = 0; i < count; ++i) {
        const struct tensor *tensor = tensor_gradient(i);
        gradients[i] = (struct plan_gradient){tensor->bytes, tensor->type};
    }
    pthread_mutex_unlock(&engine_state.lock);
    struct plan *plan = plan_build(version, gradients, order, count, engine_state.options.bucket_bytes);
    free(gradients);
    return plan;
}

/* The issuer: `plan` is in force from now on, learned from `history` (or from nothing: NULL). */
static void
adopt(struct plan *plan, const struct history *history)
{
    struct readiness readiness;
    if (!readiness_init(&readiness, plan, history))
        stop_job("out of memory");

    pthread_mutex_lock(&engine_state.lock);
    struct plan *old = engine_state.plan;
    struct readiness old_readiness = engine_state.readiness;
    engine_state.plan = plan;
    engine_state.readiness = readiness;
    engine_state.overlapping = history != NULL;
    engine_state.overlapped_steps = 0; /* the checks of the first steps begin anew */
    pthread_mutex_unlock(&engine_state.lock);

    if (old != NULL)
        readiness_free(&old_readiness);
    plan_free(old);
    issue_prepare_plan();
    atomic_store(&engine_state.status->bucket_count, history != NULL ? plan->bucket_count : 0);
}

void
agree_on_annotations(const struct ddp_site *site)
{
    pthread_mutex_lock(&engine_state.lock);
    bool indexed = tensor_index_gradients();
    size_t count = engine_state.gradient_count;
    struct described *mine = indexed ? describe_gradients() : NULL;
    uint64_t bytes = 0;
    for (size_t i = 0; mine != NULL && i < count; ++i)
        bytes += tensor_gradient(i)->bytes;
    pthread_mutex_unlock(&engine_state.lock);
    if (mine == NULL)
        stop_job("out of memory");
    if (count == 0)
        stop_job("DDP_STEP (%s:%d) without gradients: annotate them with DDP_GRADIENT before the first step",
                 site->file, site->line);

    struct control_messages all;
    agree_exchange("the first DDP_STEP after annotations changed", mine, count * sizeof(*mine), &all);
    compare_described(&all, "gradient");
    control_free_messages(&all);
    free(mine);
    agree_ensure_collectives();

    /* Work on a gradient that was enqueued before its annotation was not seen: it is waited for, this once. */
    require_cuda(engine_state.driver.cuCtxSynchronize_p(), "cuCtxSynchronize at the first step with new gradients");

    size_t *order = calloc(count + 1, sizeof(*order));
    for (size_t i = 0; order != NULL && i < count; ++i)
        order[i] = i;
    struct plan *plan = order != NULL ? build_plan(0, order) : NULL;
    free(order);
    struct history history;
    if (plan == NULL || !history_init(&history, count))
        stop_job("out of memory");

    issue_take_role();
    pthread_mutex_lock(&engine_state.lock);
    history_free(&engine_state.history);
    engine_state.history = history;
    engine_state.annotations_changed = false;
    engine_state.intervals = 0;
    pthread_mutex_unlock(&engine_state.lock);
    adopt(plan, NULL);
    checks_prepare();
    issue_give_role();
    atomic_store(&engine_state.status->gradient_count, count);
    atomic_store(&engine_state.status->gradient_bytes, bytes);
}

enum { REVIEW_EVERY = 128 };

/*
 * Boundaries at which ranks ask each other. Until there is a plan: 3 to 6 (the third is the first that can repeat
 * another), then ever rarer, for a program whose steps do not repeat must not pay for it. After that now and then,
 * whether it still fits.
 */
static bool
is_vote_due(uint64_t interval, bool overlapping)
{
    if (overlapping)
        return interval % REVIEW_EVERY == 0;
    if (interval < 3)
        return false;
    uint64_t power = UINT64_C(1) << (63 - __builtin_clzll(interval));
    return interval <= 6 || interval == power || interval == power + power / 2;
}

static uint64_t
hash_of_plan(const struct plan *plan)
{
    size_t bytes;
    void *serialised = plan_bytes(plan, &bytes);
    if (serialised == NULL)
        stop_job("out of memory");
    uint64_t hash = XXH3_64bits(serialised, bytes);
    free(serialised);
    return hash;
}

/* Bits of a vote's first word; the other words are the order in which the rank's gradients became ready. */
enum { VOTE_REPEATS = 1, VOTE_WANTS_PLAN = 2 };

/* Rank 0's order in `all`, if every rank says that its steps repeat and some rank wants a plan; else NULL. */
static const size_t *
order_to_adopt(const struct control_messages *all, size_t count)
{
    uint64_t in_all = VOTE_REPEATS, in_any = 0;
    for (int r = 0; r < all->count; ++r) {
        uint64_t word;
        memcpy(&word, all->messages[r], sizeof(word));
        if (all->bytes[r] != (1 + count) * sizeof(uint64_t))
            return NULL;
        in_all &= word;
        in_any |= word;
    }
    return (in_all & VOTE_REPEATS) && (in_any & VOTE_WANTS_PLAN) ? (const size_t *)all->messages[0] + 1 : NULL;
}

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "orders travel as 64-bit words");

/* All ranks say whether they have come to the same plan; ends the job if not. */
static void
compare_plans(const struct plan *plan)
{
    uint64_t hash = hash_of_plan(plan);
    struct control_messages hashes;
    agree_exchange("the hash of the plan of buckets", &hash, sizeof(hash), &hashes);
    for (int r = 0; r < hashes.count; ++r) {
        if (hashes.bytes[r] != sizeof(hash) || memcmp(hashes.messages[r], &hash, sizeof(hash)) != 0)
            stop_job("ranks %d and %d have come to different plans of buckets; are all ranks the same program with the "
                     "same options?",
                     engine_state.rendezvous.rank, r);
    }
    control_free_messages(&hashes);
}

void
agree_vote(bool repeats)
{
    pthread_mutex_lock(&engine_state.lock);
    bool overlapping = engine_state.overlapping;
    bool due = engine_state.options.overlap && is_vote_due(++engine_state.intervals, overlapping);
    bool wants = due && (!overlapping || !readiness_fits(&engine_state.readiness, &engine_state.history));
    pthread_mutex_unlock(&engine_state.lock);
    if (!due)
        return;

    size_t count = engine_state.gradient_count;
    uint64_t *vote = calloc(1 + count, sizeof(*vote));
    if (vote == NULL)
        stop_job("out of memory");
    vote[0] = (repeats ? VOTE_REPEATS : 0) | (wants ? VOTE_WANTS_PLAN : 0);
    history_order(&engine_state.history, (size_t *)vote + 1);
    struct control_messages votes;
    agree_exchange("a vote on the order of buckets", vote, (1 + count) * sizeof(*vote), &votes);
    free(vote);

    const size_t *order = order_to_adopt(&votes, count);
    struct plan *plan = order != NULL ? build_plan(engine_state.plan->version + 1, order) : NULL;
    control_free_messages(&votes);
    if (order == NULL)
        return;
    if (plan == NULL)
        stop_job("rank 0 sent an order of buckets that is none");
    compare_plans(plan);
    adopt(plan, &engine_state.history);
}

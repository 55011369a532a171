/*
 * learn.c - plans of buckets: from what intervals have shown, agreed on by all ranks.
 *
 * Called by the issuer at boundaries. At first everything waits for the boundary; a few boundaries of each group end
 * with a vote, in which ranks tell each other whether their intervals repeat. A plan takes effect on all ranks at the
 * same boundary, or on none.
 */
#include "interpose/engine/state.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A plan over the group's gradients as annotated. */
static struct plan *
build_plan(const struct group *group, uint32_t version, const size_t *order)
{
    size_t count = group->gradient_count;
    struct plan_gradient *gradients = calloc(count + 1, sizeof(*gradients));
    if (gradients == NULL)
        stop_job("out of memory");
    pthread_mutex_lock(&engine_state.lock);
    for (size_t i = 0; i < count; ++i) {
        gradients[i] = escape_plan_gradient(tensor_gradient(group, i));
    }
    pthread_mutex_unlock(&engine_state.lock);
    struct plan *plan = plan_build(version, gradients, order, count, engine_state.options.bucket_bytes);
    free(gradients);
    return plan;
}

/* For the report: buckets of all groups that send early. */
static void
report_buckets(void)
{
    size_t count = 0;
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        const struct group *group = &engine_state.groups[g];
        count += group->overlapping ? group->plan->bucket_count : 0;
    }
    atomic_store(&engine_state.status->bucket_count, count);
}

/* The issuer: `plan` is in force from now on, learned from `history` (or from nothing: NULL). */
static void
adopt(struct group *group, struct plan *plan, const struct history *history)
{
    struct readiness readiness;
    if (!readiness_init(&readiness, plan, history))
        stop_job("out of memory");

    pthread_mutex_lock(&engine_state.lock);
    struct plan *old = group->plan;
    struct readiness old_readiness = group->readiness;
    group->plan = plan;
    group->readiness = readiness;
    group->overlapping = history != NULL;
    group->overlapped_steps = 0; /* the checks of the first steps begin anew */
    for (size_t i = 0; i < group->gradient_count; ++i) {
        const struct tensor *tensor = tensor_gradient(group, i);
        if (escape_is_held(tensor) || tensor->held_by_any)
            readiness_hold(&group->readiness, i);
    }
    pthread_mutex_unlock(&engine_state.lock);

    if (old != NULL)
        readiness_free(&old_readiness);
    plan_free(old);
    issue_prepare_plan(group);
    report_buckets();
}

void
learn_nothing_yet(struct group *group)
{
    size_t count = group->gradient_count;
    size_t *order = calloc(count + 1, sizeof(*order));
    for (size_t i = 0; order != NULL && i < count; ++i)
        order[i] = i;
    struct plan *plan = order != NULL ? build_plan(group, 0, order) : NULL;
    free(order);
    struct history history;
    if (plan == NULL || !history_init(&history, count))
        stop_job("out of memory");

    pthread_mutex_lock(&engine_state.lock);
    history_free(&group->history);
    group->history = history;
    for (size_t i = 0; i < count; ++i) {
        if (escape_is_held(tensor_gradient(group, i)))
            history_ignore(&group->history, i);
    }
    group->intervals = 0;
    group->early_buckets = 0;
    pthread_mutex_unlock(&engine_state.lock);
    adopt(group, plan, NULL);
}

enum { REVIEW_EVERY = 128 };

/*
 * Boundaries of a group at which ranks ask each other. Until there is a plan: 3 to 6 (the third is the first that can
 * repeat another), then ever rarer, for a program whose steps do not repeat must not pay for it. After that now and
 * then, whether it still fits.
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
static size_t *
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
    return (in_all & VOTE_REPEATS) && (in_any & VOTE_WANTS_PLAN) ? (size_t *)all->messages[0] + 1 : NULL;
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
learn_vote(struct group *group, bool repeats)
{
    pthread_mutex_lock(&engine_state.lock);
    bool overlapping = group->overlapping;
    bool due = engine_state.options.overlap && is_vote_due(++group->intervals, overlapping);
    bool wants = due && (!overlapping || !readiness_fits(&group->readiness, &group->history));
    pthread_mutex_unlock(&engine_state.lock);
    if (!due)
        return;
    wants = escape_agree(group) || wants;

    size_t count = group->gradient_count;
    uint64_t *vote = calloc(1 + count, sizeof(*vote));
    if (vote == NULL)
        stop_job("out of memory");
    vote[0] = (repeats ? VOTE_REPEATS : 0) | (wants ? VOTE_WANTS_PLAN : 0);
    history_order(&group->history, (size_t *)vote + 1);
    char about[64];
    struct control_messages votes;
    snprintf(about, sizeof(about), "a vote on the order of buckets of group %d", group->id);
    agree_exchange(about, vote, (1 + count) * sizeof(*vote), &votes);
    free(vote);

    size_t *order = order_to_adopt(&votes, count);
    if (order != NULL)
        escape_order(group, order);
    struct plan *plan = order != NULL ? build_plan(group, group->plan->version + 1, order) : NULL;
    control_free_messages(&votes);
    if (order == NULL)
        return;
    if (plan == NULL)
        stop_job("rank 0 sent an order of buckets that is none");
    compare_plans(plan);
    adopt(group, plan, &group->history);
}

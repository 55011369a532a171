/*
 * serve.c - no rank waits for one that waits.
 *
 * Before the whole device is waited for, which may be until other ranks have launched what this one has: if the buckets
 * on their way have not come in WAIT_MS, this rank launches the rest of its plan. And while it waits in a message, it
 * does so where another rank has asked for it (core/requests.c). Both may make buckets stale, which are then sent once
 * more; so neither is done without need.
 */
#include "interpose/engine/core/observer.h"
#include "interpose/engine/send/send.h"

#include "base/clock.h"

#include <sched.h>

enum { WAIT_MS = 20, SPIN_US = 300, PAUSE_NS = 200000 };

/* With lock held, which it gives back meanwhile: takes part in the bucket with zeros. */
static void
discard(struct group *group, size_t bucket) ISSUER_WITH_LOCK
{
    ++group->early_buckets;
    issuer_unlock();
    inflight_sending("bucket", bucket, COMMUNICATOR_ENGINE);
    speculation_discard(group, bucket);
    inflight_sent("bucket", bucket, COMMUNICATOR_ENGINE);
    issuer_lock();
}

void
launch_rest(int id)
{
    size_t bucket;
    if (id == SEQUENCE_NONE)
        return;
    issuer_lock();
    struct group *group = &memory_state.groups[id];
    bool is_followed = group->overlapping && !group->direct;
    bool is_dropped = !group->overlapping && memory_state.annotations_changed && !group->direct;
    while (group->plan != NULL && (is_followed || is_dropped) && readiness_launch_unready(&group->readiness, &bucket)) {
        if (is_followed)
            launch_early(group, bucket);
        else
            discard(group, bucket);
    }
    issuer_unlock();
}

void
launch_rest_at_end(void)
{
    role_take();
    launch_rest(ISSUER_LOCKED(memory_state.expected_group));
    role_give();
}

/* Collective: which groups have buckets on their way, on any rank. */
static void
ask_for_early(const char *about, bool any[GROUPS_AT_MOST]) BY_ISSUER
{
    uint64_t mine[GROUPS_AT_MOST];
    struct control_messages all;
    issuer_lock();
    for (int g = 0; g < GROUPS_AT_MOST; ++g)
        mine[g] = memory_state.groups[g].early_buckets;
    issuer_unlock();
    exchange_in_step(about, mine, sizeof(mine), &all);
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        any[g] = false;
        for (int r = 0; r < all.count; ++r)
            any[g] = any[g] || ((const uint64_t *)all.messages[r])[g] > 0;
    }
    control_free_messages(&all);
}

void
launch_take_back(const char *about)
{
    bool any[GROUPS_AT_MOST];
    ask_for_early(about, any);
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        struct group *group = &memory_state.groups[g];
        size_t bucket;
        if (!any[g])
            continue;
        issuer_lock();
        while (readiness_launch_unready(&group->readiness, &bucket))
            discard(group, bucket);
        readiness_take_back(&group->readiness);
        group->early_buckets = 0;
        issuer_unlock();
        speculation_take_back(group);
    }
}

/* Unless another thread has the role: it launches, or is at a boundary. This thread may have it already. */
static void
launch_rest_if_free(void)
{
    bool had_role = role_is_mine();
    if (!had_role && !role_try())
        return;
    capability_take(&issuer_role);
    capability_share(&group_fields);
    {
        ENTER_CONTEXT();
        RELAX_CAPTURES();
        launch_rest(ISSUER_LOCKED(memory_state.expected_group));
    }
    capability_give(&group_fields);
    capability_give(&issuer_role);
    if (!had_role)
        role_release();
}

/* Whether the group whose boundary is next has buckets on their way. */
static bool
is_amid(void)
{
    engine_lock();
    int id = memory_state.expected_group;
    bool amid = id != SEQUENCE_NONE && memory_state.groups[id].early_buckets > 0;
    engine_unlock();
    return amid;
}

void
serve_before_wait(void)
{
    if (!atomic_load(&engine_state.collectives_ready) || atomic_load(&engine_state.context_ended) || !is_amid())
        return;
    ENTER_CONTEXT();
    RELAX_CAPTURES(); /* for the queries */
    int64_t begin_us = clock_now_us(), waited_us = 0;
    while (!speculation_has_come() && waited_us < WAIT_MS * 1000) {
        if (waited_us < SPIN_US)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        waited_us = clock_now_us() - begin_us;
    }
    if (waited_us < WAIT_MS * 1000)
        return;
    request_ask(atomic_load(&engine_state.boundary_count) + 1);
    launch_rest_if_free();
}

void
serve_request(void)
{
    if (!atomic_load(&engine_state.collectives_ready) || atomic_load(&engine_state.context_ended) ||
        !request_has_come(atomic_load(&engine_state.boundary_count) + 1))
        return;
    launch_rest_if_free();
}

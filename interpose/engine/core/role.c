/*
 * role.c - the issuer's role: one thread at a time enqueues collectives.
 *
 * The role is taken and given back under the engine's lock, and held across calls of CUDA and NCCL (state.h). Called in
 * all folders of the engine, by threads that hold neither lock nor role.
 */
#include "interpose/engine/core/core.h"

static __thread bool mine; /* this thread has it, by role_take() or role_try() */

bool
role_is_mine(void)
{
    return mine;
}

bool
role_try(void)
{
    pthread_mutex_lock(&engine_mutex);
    bool taken = !engine_state.issuing;
    engine_state.issuing = true;
    pthread_mutex_unlock(&engine_mutex);
    mine = taken;
    return taken;
}

void
role_release(void)
{
    pthread_mutex_lock(&engine_mutex);
    ASSERT(engine_state.issuing && mine);
    mine = false;
    engine_state.issuing = false;
    pthread_cond_broadcast(&engine_state.role_free);
    pthread_mutex_unlock(&engine_mutex);
}

void
role_take(void)
{
    pthread_mutex_lock(&engine_mutex);
    while (engine_state.issuing)
        pthread_cond_wait(&engine_state.role_free, &engine_mutex);
    ASSERT(!engine_state.issuing);
    engine_state.issuing = true;
    mine = true;
    pthread_mutex_unlock(&engine_mutex);
    capability_take(&issuer_role);
    capability_share(&group_fields);
}

void
role_give(void)
{
    capability_give(&group_fields);
    capability_give(&issuer_role);
    role_release();
}

/*
 * state.c - the engine's state (state.h), as it is before the engine starts, and the issuer's role: one thread at a
 * time enqueues collectives.
 *
 * The role is taken and given back under the engine's lock, and held across calls of CUDA and NCCL (state.h).
 */
#include "interpose/engine/core/core.h"

struct engine_state engine_state = {
    .role_free = PTHREAD_COND_INITIALIZER,
};

pthread_mutex_t engine_mutex = PTHREAD_MUTEX_INITIALIZER;
struct capability issuer_role, group_fields;

void
role_take(void)
{
    pthread_mutex_lock(&engine_mutex);
    while (engine_state.issuing)
        pthread_cond_wait(&engine_state.role_free, &engine_mutex);
    engine_state.issuing = true;
    pthread_mutex_unlock(&engine_mutex);
    capability_take(&issuer_role);
    capability_share(&group_fields);
}

void
role_give(void)
{
    capability_give(&group_fields);
    capability_give(&issuer_role);
    pthread_mutex_lock(&engine_mutex);
    engine_state.issuing = false;
    pthread_cond_broadcast(&engine_state.role_free);
    pthread_mutex_unlock(&engine_mutex);
}

/*
 * role.c - the issuer's role: one thread at a time enqueues collectives.
 *
 * The role is taken and given back under the engine's lock, and held across calls of CUDA and NCCL (state.h).
 */
#include "interpose/engine/core/core.h"

/* Not analysed, as role_give(): the role is a capability that no mutex stands for. */
void NOT_ANALYSED
role_take(void)
{
    engine_lock();
    while (engine_state.issuing)
        pthread_cond_wait(&engine_state.role_free, &engine_state.lock);
    engine_state.issuing = true;
    engine_unlock();
}

void NOT_ANALYSED
role_give(void)
{
    engine_lock();
    engine_state.issuing = false;
    pthread_cond_broadcast(&engine_state.role_free);
    engine_unlock();
}

/*
 * state.c - the engine's state (state.h), as it is before the engine starts, with its lock; role.c has the issuer's
 * role.
 */
#include "interpose/engine/core/core.h"

struct engine_state engine_state = {
    .role_free = PTHREAD_COND_INITIALIZER,
};

pthread_mutex_t engine_mutex = PTHREAD_MUTEX_INITIALIZER;
struct capability issuer_role, group_fields;

/*
 * state.c - the engine's state (state.h), as it is before the engine starts.
 */
#include "interpose/engine/core/state.h"

struct engine_state engine_state = {
    .role_free = PTHREAD_COND_INITIALIZER,
};

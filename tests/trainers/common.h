/*
 * common.h - what trainers of this folder share that train in one of several modes (trainer_modes.h): what a rank adds.
 */
#ifndef TESTS_TRAINERS_COMMON_H
#define TESTS_TRAINERS_COMMON_H

#include "../lib/elementwise.h"
#include "../lib/trainer_memory.h"
#include "../lib/trainer_modes.h"

#include <ddprun.h>

/* What this rank adds to its gradients: the mean over all ranks is another. */
static inline float
mine(void)
{
    return 1.0f + (float)DDP_RANK();
}

static inline bool
is_last_rank(void)
{
    return DDP_RANK() == DDP_WORLD_SIZE() - 1;
}

/* Of mine() over all ranks. */
static inline double
mean_of_all(void)
{
    return 0.5 * (1 + DDP_WORLD_SIZE());
}

#endif

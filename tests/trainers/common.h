/*
 * common.h - what trainers of this folder share that train in one of several modes: the mode, and the order of streams.
 */
#ifndef TESTS_TRAINERS_COMMON_H
#define TESTS_TRAINERS_COMMON_H

#include "../trainer.h"

#include <cuda_runtime.h>
#include <ddprun.h>
#include <string.h>

/* The first argument, or what the trainer does without one. */
static const char *mode __attribute__((unused));

static inline bool
is_mode(const char *name)
{
    return strcmp(mode, name) == 0;
}

/* What this rank adds to its gradients: the mean over all ranks is another. */
static inline float
mine(void)
{
    return 1.0f + (float)DDP_RANK();
}

/* What `first` has got so far comes before what `second` gets from now on. */
static inline void
stream_follow(cudaStream_t first, cudaStream_t second, cudaEvent_t event)
{
    CHECK(cudaEventRecord(event, first));
    CHECK(cudaStreamWaitEvent(second, event, 0));
}

#endif

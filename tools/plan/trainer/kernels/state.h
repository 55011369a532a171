/*
 * state.h - what the kernels of a plan by state are given: between tools/plan/trainer/state_memory.c, which launches
 * them, and kernels.cu. C, and CUDA C++.
 */
#ifndef DDPRUN_TOOLS_PLAN_TRAINER_KERNELS_STATE_H
#define DDPRUN_TOOLS_PLAN_TRAINER_KERNELS_STATE_H

#include <stdint.h>

/* Elements of a tensor that stays, at most STATE_CHUNK of them; by address. A change of 16-bit floats is float32, of
 * others it has their own type. */
struct state_chunk {
    uint64_t value;  /* the program's */
    uint64_t begin;  /* as the round began */
    uint64_t change; /* since then */
    uint32_t count;
    uint32_t type; /* enum ddp_type: a float, or a whole number of 4 or 8 bytes */
};

enum { STATE_CHUNK = 4096, STATE_THREADS = 256, STATE_BLOCKS_AT_MOST = 512 };

/* What ddprun_state_apply has met since it was zeroed, and ddprun_state_change: turned; ddprun_state_return: written.
 */
struct state_found {
    uint32_t differs; /* not 0: a word's own change is not the mean */
    uint32_t changed; /* not 0: a word's mean is not 0 */
    uint32_t written; /* the number, from 1, of a chunk whose value was another than as the round began */
    uint32_t turned;  /* the number, from 1, of a chunk of floats in which a zero has become a whole number */
};

/* What is added is change * times / under, in the change's type; where they are equal, the change. */
struct state_mean {
    double times, under;
};

#endif

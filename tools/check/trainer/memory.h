/*
 * memory.h - between updaters.c, which finds unannotated memory that updates write, and memory.c, which keeps it. All
 * with memory_lock held; it is held across calls of the driver, and nothing that they wait for takes it.
 */
#ifndef DDPRUN_TOOLS_CHECK_TRAINER_MEMORY_H
#define DDPRUN_TOOLS_CHECK_TRAINER_MEMORY_H

#include "tools/check/trainer/check.h"

extern pthread_mutex_t memory_lock;

/* ---- memory.c ---- */
/* An updater writes this, which is now at `address`, or nowhere yet (0); its number is given here. Goes into the
 * reference. */
void memory_found(const struct check_memory *found, CUdeviceptr address);
/* The updater was called with this pointer: where its ranges are in this step. Of `at` only what says which call it is.
 */
void memory_resolve(const struct check_memory *at, CUdeviceptr pointer);

/* Whether the address is in a range, as it was last found. */
bool memory_has(CUdeviceptr address);

/* ---- used.c ---- */
/* An update gets the gradient, in this step: what has become of it since DDP_STEP? */
void used_gradient(const struct tensor *gradient, uint32_t step, const char *function);

/* ---- calls.c ---- */
/* A call of an updater; `number` of its calls of the step. */
void calls_scalars(const struct operation *operation, const struct function_layout *layout, uint32_t step,
                   uint32_t updater, uint32_t number);
/* Any operation, in the run that writes the reference. `given`: the updater that was given a pointer, or NULL. */
struct calls_operation {
    uint64_t call;
    const char *name;
    bool is_updater;
    const char *(*given)(CUdeviceptr address);
};
void calls_in_front(const struct operation *operation, const struct function_layout *layout,
                    const struct calls_operation *its, uint32_t step);
/* A boundary of the first group. */
void calls_boundary(uint32_t step);

/* ---- memory.c ---- */
/* The reference, or what was scouted, says that this function writes such memory: for each that it names. */
void memory_open(void (*found_call)(uint64_t call));
/* A boundary of the first group; `step` as in values_tensor(). */
void memory_boundary(uint32_t step);

#endif

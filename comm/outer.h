/*
 * outer.h - the outer step of local SGD on the device (DiLoCo, arXiv 2311.08105): launches of comm/kernels/outer.cu.
 *
 * g = anchor - mean; velocity = momentum * velocity + g; anchor -= rate * (g + momentum * velocity); the parameters
 * become the anchor. All ranks compute it from the same mean, so that all of them hold the same bits.
 *
 * Needs ddprun's own kernels (comm/kernels.h). Functions only enqueue. The engine's step/outer.c calls them.
 */
#ifndef DDPRUN_COMM_OUTER_H
#define DDPRUN_COMM_OUTER_H

#include "comm/wire.h"

struct outer_rule {
    double rate, momentum;
};

/* Parameters on the device, and what an outer step keeps of them. */
struct outer_values {
    CUdeviceptr values, kept; /* kept: outer_bytes() of memory, the anchor and then its velocity */
    size_t count;             /* elements */
    ncclDataType_t type;
};

size_t outer_bytes(const struct outer_values *values, const struct outer_rule *rule);

/* What the parameters hold becomes the anchor; its velocity becomes zero. */
bool outer_begin(const struct outer_values *values, const struct outer_rule *rule, const struct wire_setting *setting,
                 CUstream stream, struct comm_error *error) __attribute__((warn_unused_result));

/* The parameters hold the mean of all ranks': one outer step. */
bool outer_step(const struct outer_values *values, const struct outer_rule *rule, const struct wire_setting *setting,
                CUstream stream, struct comm_error *error) __attribute__((warn_unused_result));

#endif

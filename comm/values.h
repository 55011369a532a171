/*
 * values.h - this rank's values beside rank 0's: launches of comm/kernels/values.cu.
 *
 * Without ddprun's own kernels (kernels.h) the host computes the same, and the functions wait for the stream; with them
 * they only enqueue. Called by the engine's verify/values.c.
 */
#ifndef DDPRUN_COMM_VALUES_H
#define DDPRUN_COMM_VALUES_H

#include "comm/kernels/values.h"
#include "comm/wire.h"

/* The chunk takes rank 0's values; what was apart is added to `found`, a struct values_found of the device. */
bool values_compare(const struct wire_setting *setting, struct values_chunk chunk, ncclDataType_t type,
                    CUdeviceptr found, CUstream stream, struct comm_error *error) MUST_USE;
/* What of the sample lies in the chunk. */
bool values_sample(const struct wire_setting *setting, struct values_chunk chunk, ncclDataType_t type,
                   struct values_sample sample, CUstream stream, struct comm_error *error) MUST_USE;

#endif

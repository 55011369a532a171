/*
 * device_hash.h - memory of the device is hashed where it is, in the order of a stream: launches of
 * comm/kernels/hash.cu.
 *
 * Needs ddprun's own kernels (comm/kernels.h). Functions only enqueue. The engine's hashing.c and gather.c call them.
 */
#ifndef DDPRUN_COMM_DEVICE_HASH_H
#define DDPRUN_COMM_DEVICE_HASH_H

#include "comm/driver.h"
#include "comm/kernels.h"
#include "comm/kernels/hash.h"

#include <stdbool.h>

/* Adds a range, whose `begin` it sets, of at least one byte; false if the launch has no room for it: run it first. */
bool device_hash_add(struct hash_launch *launch, struct hash_range range) __attribute__((warn_unused_result));

/* Adds to each range's result what is in the range when the stream has reached it, and empties *launch. */
bool device_hash_run(struct hash_launch *launch, const struct driver *driver, const struct kernels *kernels,
                     CUstream stream, struct comm_error *error) __attribute__((warn_unused_result));

/* Device memory: words[rank * count + tensor], 0 where a rank has none; differs[tensor] becomes HASH_EQUAL,
 * HASH_UNCOMPARED or the first rank whose word differs from rank 0's. */
bool device_hash_compare(CUdeviceptr words, size_t count, int ranks, CUdeviceptr differs, const struct driver *driver,
                         const struct kernels *kernels, CUstream stream, struct comm_error *error)
    __attribute__((warn_unused_result));

/* The same on the host. */
uint32_t hash_first_difference(const uint64_t *words, size_t count, int ranks, size_t tensor);

#endif

/*
 * device_hash.h - memory of the device is hashed where it is, in the order of a stream: launches of
 * comm/kernels/hash.cu.
 *
 * Needs ddprun's own kernels (kernels.h). Functions only enqueue; nothing here waits for the device. Called by the
 * engine's core/hashing.c and core/gather.c.
 */
#ifndef DDPRUN_COMM_DEVICE_HASH_H
#define DDPRUN_COMM_DEVICE_HASH_H

#include "comm/kernels.h"
#include "comm/kernels/hash.h"

/* Adds a range, whose `begin` it sets, of at least one byte; false if the launch has no room for it: run it first. */
bool device_hash_add(struct hash_launch *launch, struct hash_range range) MUST_USE;

/* Adds to each range's result what is in the range when the stream has reached it, and empties *launch. */
bool device_hash_run(struct hash_launch *launch, const struct driver *driver, const struct kernels *kernels,
                     CUstream stream, struct comm_error *error) MUST_USE;

/* Device memory: words[rank * count + tensor], 0 where a rank has none; differs[tensor] becomes
 * hash_difference() of it. */
bool device_hash_compare(CUdeviceptr words, size_t count, int ranks, CUdeviceptr differs, const struct driver *driver,
                         const struct kernels *kernels, CUstream stream, struct comm_error *error) MUST_USE;

#endif

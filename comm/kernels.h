/*
 * kernels.h - ddprun's own kernels, loaded at run time: packing, unpacking, converting, scaling (comm/kernels/wire.cu),
 * hashing and comparing hashes (comm/kernels/hash.cu), comparing values
 * (comm/kernels/values.cu), finding infinite elements and NaN (comm/kernels/nonfinite.cu).
 *
 * They come as a file beside the engine: a fatbin made by nvcc for GPUs, a library made by softgpu-cc for the stand-in.
 * The launcher knows which of the two a job needs. Without them buckets are packed by copies, memory is hashed on the
 * host, and nothing is converted or scaled.
 */
#ifndef DDPRUN_COMM_KERNELS_H
#define DDPRUN_COMM_KERNELS_H

#include "base/protocol.h"
#include "comm/driver.h"
#include "comm/kernels/hash.h"

#include <stdbool.h>

/* What kernels compute with, by their own numbers. */
enum kernel_type { KERNEL_FLOAT32, KERNEL_FLOAT64, KERNEL_FLOAT16, KERNEL_BFLOAT16, KERNEL_TYPES };

/* Functions of the context that they were loaded into; they live as long as it does. */
struct kernels {
    bool loaded;
    unsigned threads; /* of a block: one on the stand-in, where they run one after another, each across a whole chunk */
    struct {
        CUfunction pack, unpack;
    } in[DDPRUN_COMPRESSION_COUNT]; /* by enum ddprun_compression; none: plain copies */
    CUfunction scale[KERNEL_TYPES]; /* each element times a number, over another, in place; */
    CUfunction pack_scaled[KERNEL_TYPES], unpack_scaled[KERNEL_TYPES];    /* or on the way */
    CUfunction compare_values[KERNEL_TYPES], sample_values[KERNEL_TYPES]; /* comm/kernels/values.h */
    CUfunction chunks;                                                    /* makes the table that packing takes */
    CUfunction hash, compare;
    CUfunction nonfinite; /* comm/kernels/nonfinite.h */
};

/*
 * Loads the kernels in `path` into the current context: a library if its name ends in ".so", else an image for
 * cuModuleLoadData. False with one line if that fails; *kernels is then untouched. Loading code may wait for the
 * device, so this is for times when nothing on it waits for other ranks; no stream may be captured in strict mode.
 */
bool kernels_load(struct kernels *kernels, const struct driver *driver, const char *path,
                  struct comm_error *error) MUST_USE;

/* The same of kernels of other files: those of these names, [count]. */
bool kernels_load_named(const char *const *wanted, CUfunction *found, size_t count, const struct driver *driver,
                        const char *path, struct comm_error *error) MUST_USE;

/* ---- hashes ---- */
/*
 * Memory of the device is hashed where it is, in the order of a stream: launches of comm/kernels/hash.cu.
 *
 * Needs ddprun's own kernels (comm/kernels.h). Functions only enqueue. The engine's hashing.c and gather.c call
 * them.
 */

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

/*
 * kernels.h - ddprun's own kernels, loaded at run time: packing, unpacking, converting, scaling (comm/kernels/wire.cu),
 * hashing and comparing hashes (comm/kernels/hash.cu), comparing values
 * (comm/kernels/values.cu), finding infinite elements and NaN (comm/kernels/nonfinite.cu).
 *
 * They come as a file beside the engine: a fatbin made by nvcc for GPUs, with another one for drivers of CUDA 12, and a
 * library made by softgpu-cc for the stand-in.
 * The launcher knows which of the two a job needs. Without them buckets are packed by copies, memory is hashed on the
 * host, and nothing is converted or scaled.
 */
#ifndef DDPRUN_COMM_KERNELS_H
#define DDPRUN_COMM_KERNELS_H

#include "comm/driver.h"

#include <stdbool.h>

/* What kernels compute with, by their own numbers. */
enum kernel_type { KERNEL_FLOAT32, KERNEL_FLOAT64, KERNEL_FLOAT16, KERNEL_BFLOAT16, KERNEL_TYPES };

/* What elements become between a bucket's members and what is sent: float32 becomes 16 bits, or float16 float32. */
enum kernel_conversion {
    CONVERT_NOTHING,
    CONVERT_TO_FLOAT16,
    CONVERT_TO_BFLOAT16,
    CONVERT_TO_FLOAT32,
    KERNEL_CONVERSIONS
};

/* Functions of the context that they were loaded into; they live as long as it does. */
struct kernels {
    bool loaded;
    unsigned threads; /* of a block: one on the stand-in, where they run one after another, each across a whole chunk */
    struct {
        CUfunction pack, digest, unpack; /* `digest`: packs with digests, or compares them (comm/kernels/chunk.h) */
    } in[KERNEL_CONVERSIONS];            /* nothing: plain copies */
    CUfunction scale[KERNEL_TYPES];      /* each element times a number, over another, in place; */
    CUfunction pack_scaled[KERNEL_TYPES], digest_scaled[KERNEL_TYPES], unpack_scaled[KERNEL_TYPES]; /* or on the way */
    CUfunction compare_values[KERNEL_TYPES], sample_values[KERNEL_TYPES]; /* comm/kernels/values.h */
    CUfunction chunks;                                                    /* makes the table that packing takes */
    CUfunction hash, compare;
    CUfunction nonfinite; /* comm/kernels/nonfinite.h */
};

/*
 * Loads the kernels in `path` into the current context: a library if its name ends in ".so", else an image for
 * cuModuleLoadData, or that of base/kernel_files.h which the driver takes. False with one line if
 * that fails; *kernels is then untouched. Loading code may wait for the device, so this is for times when nothing on it
 * waits for other ranks; no stream may be captured in strict mode.
 */
bool kernels_load(struct kernels *kernels, const struct driver *driver, const char *path,
                  struct comm_error *error) MUST_USE;

/* The same of kernels of other files: those of these names, [count]. */
bool kernels_load_named(const char *const *wanted, CUfunction *found, size_t count, const struct driver *driver,
                        const char *path, struct comm_error *error) MUST_USE;

#endif

/*
 * hashing.h - hashes of device memory, in stream order: by a kernel, or by copies where ddprun's kernels cannot be had.
 *
 * For checks.c, duplicate_batch.c and unaveraged.c. Nothing here waits on the host.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_CORE_HASHING_H
#define DDPRUN_INTERPOSE_ENGINE_CORE_HASHING_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a pass over memory has found. */
struct hashed {
    uint64_t hash; /* HASH_OF_NOTHING: of no bytes */
    bool finite;   /* no element is infinite or NaN */
    bool zero;     /* all are */
};
enum { HASH_OF_NOTHING = 0 };
struct hasher;
/* Once collectives are open. A hasher serves one stream and one thread at a time. hasher_put() may be called in the
 * last done() of what was collected. */
struct hasher *hasher_get(void);
void hasher_put(struct hasher *hasher);
/* [address, address + bytes) is to be hashed. done(arg, hashed) is called when that is collected, in a host function:
 * no CUDA in it. `type`: of the elements, which are looked at; 0: they are not, nothing is known but the hash. */
void hasher_add(struct hasher *hasher, CUdeviceptr address, size_t bytes, int type,
                void (*done)(void *arg, const struct hashed *hashed), void *arg);
/* The same of a sample of it, evenly spread; elements are not looked at. */
void hasher_add_sample(struct hasher *hasher, CUdeviceptr address, size_t bytes,
                       void (*done)(void *arg, const struct hashed *hashed), void *arg);
/* The same of the host's memory, which is hashed now, with or without a sample. False, and nothing is added: it is not
 * there. */
bool hasher_add_host(struct hasher *hasher, uint64_t address, size_t bytes, bool sampled, int type,
                     void (*done)(void *arg, const struct hashed *hashed), void *arg)
    __attribute__((warn_unused_result));
/* What was added is hashed as it is when the stream comes here. */
void hasher_launch(struct hasher *hasher, CUstream stream);
/* The same for the rest, and all done() are called, in the order of their additions, when the stream comes here. */
void hasher_collect(struct hasher *hasher, CUstream stream);

/* Copies to the host for a check. Bytes that were copied so since this was last asked for, as they were enqueued. */
void hashing_copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream, const char *what);
uint64_t hashing_take_copied(void);

#endif

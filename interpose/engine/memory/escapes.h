/*
 * escapes.h - what kernels reach through pointers in memory: gradients whose address has escaped, the memory that
 * exists, memory that host and device share, arrays of pointers, tensor maps.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_MEMORY_ESCAPES_H
#define DDPRUN_INTERPOSE_ENGINE_MEMORY_ESCAPES_H

#include "bucketing/words.h"
#include "interpose/engine/memory/memory.h"

/* ---- escaped_pointers.c: gradients and buffers that kernels may reach unseen ---- */
/* Whether a table with addresses of tensors was copied to the device since then. Numbers in other data, which may only
 * look like addresses, are reported, once in each rank, and do not count: the graph with the DDP_STEP at `site` does
 * not wait for kernels that read them. Any thread, not with lock held. */
bool escape_certain_since(const struct escape_count *then, const struct ddp_site *site);
/* These bytes are about to be copied to the device. Whether there are addresses of its memory among them. Gradients
 * into which they point are deferred from now on. */
bool escape_from_host(const void *source, size_t bytes);
/* Any address may have been: everything is deferred. */
void escape_of_all(void);
/* With lock held: whether a pointer into the tensor has escaped. */
bool escape_has(const struct tensor *tensor) WITH_LOCK;
/* With lock held: the gradient waits for the boundary from now on, and the boundary for all streams with kernels. */
void escape_hold(struct tensor *tensor) WITH_LOCK;
/* With lock held: why it is deferred for this: the host reaches it, or kernels may touch it unseen, and the program
 * does not say when it is complete. */
enum deferral escape_deferral(const struct tensor *tensor) WITH_LOCK;
/* While gradients are deferred: whether the next boundary knows of kernels on the stream, as far as this thread can
 * tell.
 */
bool escape_is_marked(CUstream stream);
/* If not: before a kernel goes there, which waits for the last reduction; and after it, with lock held. */
void escape_mark(CUstream stream);
void escape_end_kernel(uint64_t stream_mask) WITH_LOCK;
/* How a plan sees a gradient, so that deferred ones have buckets of their own; and the type that a bucket then really
 * has.
 */
struct plan_gradient escape_plan_gradient(const struct tensor *tensor);
int escape_bucket_type(const struct plan_bucket *bucket);
bool escape_bucket_is_deferred(const struct plan_bucket *bucket);

/* ---- allocations.c: the device memory that exists; all with lock held ---- */
/* False when memory runs out: the caller ends the job. */
bool allocations_add(uint64_t address, uint64_t bytes, enum memory_kind kind) WITH_LOCK MUST_USE;
bool allocations_remove(uint64_t address, uint64_t bytes) WITH_LOCK MUST_USE;
/* Whether all of it exists; of any kind, or with another `kind` than MEMORY_DEVICE: of that. */
bool allocations_cover(uint64_t address, uint64_t bytes, enum memory_kind kind) WITH_LOCK;
/* Of the allocation that begins there; 0: none is known. */
uint64_t allocations_bytes_at(uint64_t address) WITH_LOCK;
/* What can be an address, and a little more. */
struct words_spans allocations_spans(void) WITH_LOCK;

/* ---- host_accessible.c: memory that host and device reach ---- */
void host_accessible_remove(CUdeviceptr address);
void escape_allocated(const CUdeviceptr *address, size_t bytes, enum memory_kind kind); /* see engine.h */
/* A source of which only the driver knows whose memory it is. */
void escape_from_anywhere(CUdeviceptr source, size_t bytes);
/* Whether an address may lie there: bounded_may_hold(), cheap. */
extern struct bounded_ranges host_accessible;
/* Whether memory begins there that the program has pinned: its end as such is not its end. */
bool host_accessible_is_pinned(uint64_t address);
/* Whether it lies there, all of it. */
bool host_accessible_has(uint64_t address, size_t bytes);
/* A kernel gets this address: looks for escaping addresses in the memory that it points to. */
void host_accessible_look_behind(uint64_t address);
/* The same for [address, address + bytes) of the host's memory, whatever is there: whether all of it could be read. */
bool host_accessible_look_through(uint64_t address, size_t bytes);

/* ---- pointer_arrays.c: arrays of pointers that the host has copied to the device ---- */
/* Whether there may be one: bounded_may_hold(), cheap, without lock. */
extern struct bounded_ranges pointer_arrays;
/* All with lock held. */
void pointer_arrays_copied(uint64_t address, size_t bytes, bool has_addresses) WITH_LOCK;
/* Something else may have been written there. */
void pointer_arrays_touched(uint64_t address, size_t bytes) WITH_LOCK;
/* Whether all of it is as the host has copied it. */
bool pointer_arrays_know(uint64_t address, size_t bytes) WITH_LOCK;

/* ---- tensor_maps.c ---- */
void tensor_map_encoded(CUdeviceptr address, bool done); /* see engine.h */

#endif

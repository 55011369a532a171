/*
 * ddprun_lines.h - what the lines of `ddprun scout --patch` call, besides ddprun.h. C and C++.
 */
#ifndef DDPRUN_LINES_H
#define DDPRUN_LINES_H

#include <ddprun.h>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define DDP_LINES_END(...) (fprintf(stderr, "ddprun_lines.h: " __VA_ARGS__), exit(1))

/*
 * Flags beside the bytes of an item, as in `DDP_ELEMENTS | 4`. DDP_ALSO: another list of the same batch, whose items
 * are counted already. DDP_UNCOUNTED: the list comes once for many steps, so ddprun prints no items/s. DDP_ELEMENTS:
 * the bytes are those of an element, because scout does not know a record's: at most two ranks run, and rank 0 warns.
 */
#define DDP_ALSO      ((size_t)1 << 62)
#define DDP_UNCOUNTED ((size_t)1 << 61)
#define DDP_ELEMENTS  (DDP_UNCOUNTED | (size_t)1 << 60)
__attribute__((weak)) unsigned ddp_warnings;

/*
 * Overwrites a batch of `bytes` at `data`, on the host or the device, in the order of `stream` (0: the default one):
 * this rank's items replace those of the other ranks. `item`: the bytes of one item, with flags. The mean over the
 * batch is then that of the rank's share, and a step is no faster. To make it faster, load and compute the share's
 * items alone. Ends a program whose batch has no equal shares.
 */
static inline void
ddp_share(const void *data, size_t bytes, size_t item, cudaStream_t stream)
{
    size_t each = item & ~(DDP_ALSO | DDP_ELEMENTS), ranks = (size_t)DDP_WORLD_SIZE(), share, unused, at;
    if (item & DDP_UNCOUNTED) /* after two totals that differ ddprun has no figure */
        DDP_SHARD(2 * bytes, &share, &unused);
    if (!(item & DDP_ALSO))
        DDP_SHARD(bytes / each, &share, &unused);
    if (bytes % (each * ranks) != 0)
        DDP_LINES_END("a batch of %zu bytes, %zu for each item, has no %zu equal shares: choose another batch size\n",
                      bytes, each, ranks);
    if ((item & DDP_ELEMENTS) == DDP_ELEMENTS && ranks > 2) /* `ddprun check` compares two ranks with one */
        DDP_LINES_END("ddprun scout does not know the bytes of a record, and %zu shares may cut inside one: in the "
                      "call of ddp_share, write these bytes in place of DDP_ELEMENTS | ...\n",
                      ranks);
    if ((item & DDP_ELEMENTS) == DDP_ELEMENTS && ranks > 1 && DDP_RANK() == 0 && ddp_warnings++ == 0)
        fprintf(stderr,
                "ddprun_lines.h: scout does not know the bytes of a record: a batch that %zu ranks cannot share "
                "evenly gives a wrong result; `ddprun check` shows it\n",
                ranks);
    share = bytes / ranks;
    for (at = 0; at < bytes; at += share)
        if (at != (size_t)DDP_RANK() * share)
            cudaMemcpyAsync((char *)data + at, (const char *)data + (size_t)DDP_RANK() * share, share,
                            cudaMemcpyDefault, stream);
    if (stream == 0)
        cudaStreamSynchronize(stream);
}

/* As ddp_share(), for a batch of `times` time steps one after the other, each with all records; `times` is 1 for a list
 * that one copy brings together with other lists. `scouted`: the bytes that scout saw. Ends a program whose batch has
 * another size: its time steps and lists may lie at other places. */
static inline void
ddp_share_times(const void *data, size_t bytes, size_t scouted, size_t times, size_t item, cudaStream_t stream)
{
    size_t at;
    if (bytes != scouted)
        DDP_LINES_END("a batch, or a list in it, has %zu bytes, and ddprun scout saw %zu: scout the program with these "
                      "arguments\n",
                      bytes, scouted);
    for (at = 0; at < bytes; at += bytes / times)
        ddp_share((const char *)data + at, bytes / times, at > 0 ? item | DDP_ALSO : item, stream);
}

/* Batches that stay on the device: a launch gets the address of the first record. */
enum { DDP_SLICES_AT_MOST = 64 };
struct ddp_slice {
    char *records, *saved;
    size_t bytes;
    int is_shared;
};
__attribute__((weak)) struct ddp_slice ddp_slices[DDP_SLICES_AT_MOST];

/* Restores the batches that ddp_share_slice() has overwritten. Call it after the last gradient of a step. */
static inline void
ddp_unshare(void)
{
    unsigned i;
    cudaDeviceSynchronize();
    for (i = 0; i < DDP_SLICES_AT_MOST; ++i) {
        if (ddp_slices[i].is_shared)
            cudaMemcpy(ddp_slices[i].records, ddp_slices[i].saved, ddp_slices[i].bytes, cudaMemcpyDefault);
        ddp_slices[i].is_shared = 0;
    }
    cudaDeviceSynchronize();
}

/*
 * As ddp_share(), until ddp_unshare(), for the batch that begins `at` bytes after `records`. It has `scouted` bytes, or
 * fewer at the end of its memory, or of all `limit` bytes of records (0: not known). `number`: of this line in the
 * program. Ends a program whose batches are smaller than scout saw.
 */
static inline void
ddp_share_slice(unsigned number, const void *records, size_t at, size_t limit, size_t scouted, size_t item)
{
    struct ddp_slice *slice = &ddp_slices[number % DDP_SLICES_AT_MOST];
    char *begin = (char *)records + at;
    size_t bytes = limit > at && limit - at < scouted ? limit - at : scouted, moved = (size_t)(begin - slice->records);
    size_t each = item & ~(DDP_ALSO | DDP_ELEMENTS), fits = 0, most;
    if (slice->records != NULL && moved > 0 && moved < scouted)
        DDP_LINES_END(
            "a batch begins %zu bytes after another one, and ddprun scout saw batches of %zu bytes: scout the "
            "program with this batch size\n",
            moved, scouted);
    if (slice->is_shared)
        ddp_unshare();
    if (slice->saved == NULL && cudaMalloc((void **)&slice->saved, scouted) != cudaSuccess)
        DDP_LINES_END("no memory for a copy of a batch of %zu bytes\n", scouted);
    cudaDeviceSynchronize();
    for (most = bytes / each + 1; most - fits > 1;) { /* the last batch of a memory may be shorter */
        size_t items = fits == 0 && most > bytes / each ? bytes / each : fits + (most - fits) / 2;
        if (cudaMemcpy(slice->saved, begin, items * each, cudaMemcpyDefault) == cudaSuccess)
            fits = items;
        else
            most = items, (void)cudaGetLastError();
    }
    if (fits == 0)
        DDP_LINES_END("a batch does not begin in the memory of %zu bytes that ddprun scout saw there\n", bytes);
    bytes = fits * each;
    slice->records = begin;
    slice->bytes = bytes;
    slice->is_shared = 1;
    ddp_share(begin, bytes, item, 0);
}

/*
 * Memory without a variable in reach of an annotation, in the order of its allocation: `#define cudaMalloc ddp_malloc`
 * stands before the function that allocates it. Managed memory is that of all streams, whatever flags the call has.
 */
enum { DDP_MADE_AT_MOST = 1024 };
struct ddp_made {
    void *memory;
    size_t bytes;
};
__attribute__((weak)) struct ddp_made ddp_made[DDP_MADE_AT_MOST];
__attribute__((weak)) unsigned ddp_made_count;

static inline cudaError_t
ddp_note(void *memory, size_t bytes, cudaError_t result)
{
    if (ddp_made_count++ < DDP_MADE_AT_MOST) {
        ddp_made[ddp_made_count - 1].memory = *(void **)memory;
        ddp_made[ddp_made_count - 1].bytes = bytes;
    }
    return result;
}

static inline cudaError_t
ddp_malloc(void *memory, size_t bytes)
{
    return ddp_note(memory, bytes, cudaMalloc((void **)memory, bytes));
}

static inline cudaError_t
ddp_malloc_managed(void *memory, size_t bytes, ...)
{
    return ddp_note(memory, bytes, cudaMallocManaged((void **)memory, bytes, cudaMemAttachGlobal));
}

/* Ends a program that has made more or fewer allocations than scout saw. */
static inline void
ddp_check_made(unsigned count)
{
    if (ddp_made_count != count)
        DDP_LINES_END(
            "ddp_malloc() was called %u times, and ddprun scout saw %u allocations: scout with these arguments, or see "
            "whether an allocation between '#define cudaMalloc ddp_malloc' and '#undef cudaMalloc' is by another "
            "call\n",
            ddp_made_count, count);
}

#endif

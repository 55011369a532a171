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

/* With the bytes of an item: ddprun counts another list of the batch; it has no figure of items, because the list comes
 * once for many steps; or it has none, and rank 0 warns, because the item is an element, and no record. */
#define DDP_ALSO      ((size_t)1 << 62)
#define DDP_UNCOUNTED ((size_t)1 << 61)
#define DDP_ELEMENTS  (DDP_UNCOUNTED | (size_t)1 << 60)
__attribute__((weak)) unsigned ddp_warnings;

/*
 * Overwrites a batch, on the host or the device: this rank's items are copied over those of the other ranks. Sums and
 * means over the batch are then those of the rank's share, and take no less time. Faster: load, copy and compute the
 * share's items alone. `item`: its bytes; where they are an element's, a share may end inside a record. Ends a program
 * whose batch has no equal shares.
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
    if ((item & DDP_ELEMENTS) == DDP_ELEMENTS && ranks > 1 && DDP_RANK() == 0 && ddp_warnings++ == 0)
        fprintf(stderr,
                "ddprun_lines.h: %zu ranks must divide the records of a batch; ddprun scout does not know them\n",
                ranks);
    share = bytes / ranks;
    for (at = 0; at < bytes; at += share)
        if (at != (size_t)DDP_RANK() * share)
            cudaMemcpyAsync((char *)data + at, (const char *)data + (size_t)DDP_RANK() * share, share,
                            cudaMemcpyDefault, stream);
    if (stream == 0)
        cudaStreamSynchronize(stream);
}

/* The same of a batch of `times` time steps, one after the other, each with all records; 1: of a list beside others,
 * which one copy brings. Ends a program whose batch has another size than the one that was scouted: it may have other
 * time steps, and lists at other places. */
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

/* Records that stay on the device, by batches: memory that ddp_share_batches() has overwritten. */
enum { DDP_BATCHES_AT_MOST = 32 };
struct ddp_batches {
    char *data;
    size_t bytes, batch;
};
__attribute__((weak)) struct ddp_batches ddp_batches[DDP_BATCHES_AT_MOST];
__attribute__((weak)) unsigned ddp_batches_count;

/* The same of each batch of records that stay on the device. What is left behind the last one is as it was: all ranks
 * compute the same of it. */
static inline void
ddp_share_batches(const void *data, size_t bytes, size_t batch, size_t item, cudaStream_t stream)
{
    struct ddp_batches it = {(char *)data, bytes, batch};
    size_t at;
    for (at = 0; at + batch <= bytes; at += batch)
        ddp_share((const char *)data + at, batch, item, stream);
    ddp_batches[ddp_batches_count++ % DDP_BATCHES_AT_MOST] = it;
}

/*
 * Ends a program that computes from records which do not begin where a batch of ddp_share_batches() does: its batches
 * are smaller than those that were scouted, or no multiple of them. Other memory is not looked at.
 */
static inline void
ddp_check_batch(const void *records)
{
    unsigned i;
    for (i = 0; i < DDP_BATCHES_AT_MOST; ++i) {
        size_t at = (size_t)((const char *)records - ddp_batches[i].data);
        if (at < ddp_batches[i].bytes && at % ddp_batches[i].batch != 0)
            DDP_LINES_END("a batch begins at byte %zu of its records, and ddprun scout saw batches of %zu bytes: scout "
                          "the program with this batch size\n",
                          at, ddp_batches[i].batch);
    }
}

/*
 * Memory that has no name where it could be annotated, in the order of its allocation.
 */
enum { DDP_MADE_AT_MOST = 1024 };
struct ddp_made {
    void *memory;
    size_t bytes;
};
__attribute__((weak)) struct ddp_made ddp_made[DDP_MADE_AT_MOST];
__attribute__((weak)) unsigned ddp_made_count;

static inline void
ddp_note(void *memory, size_t bytes)
{
    if (ddp_made_count < DDP_MADE_AT_MOST) {
        ddp_made[ddp_made_count].memory = memory;
        ddp_made[ddp_made_count].bytes = bytes;
    }
    ++ddp_made_count;
}

/* Ends a program that has made other allocations than the one that was scouted. */
static inline void
ddp_check_made(unsigned count)
{
    if (ddp_made_count != count)
        DDP_LINES_END(
            "ddp_note() was called %u times, and ddprun scout saw %u allocations: scout with these arguments, "
            "or see whether a ddp_note() line is not reached\n",
            ddp_made_count, count);
}

#endif

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
 * Overwrites a batch, on the host or the device: this rank's records are copied over those of the other ranks. Sums
 * and means over the batch are then those of the rank's share, and take no less time. Faster: load, copy and compute
 * the share's records alone. `each`: bytes of an element.
 */
static inline void
ddp_share(const void *data, size_t bytes, size_t each, cudaStream_t stream)
{
    size_t first, count, at;
    /* Bytes are no items: after two totals that differ ddprun has no figure of items. */
    DDP_SHARD(2 * bytes, &first, &count);
    DDP_SHARD(bytes, &first, &count);
    if (bytes % (each * (size_t)DDP_WORLD_SIZE()) != 0)
        DDP_LINES_END("a batch of %zu elements has no %d equal shares: choose another batch size\n", bytes / each,
                      DDP_WORLD_SIZE());
    for (at = 0; at < bytes; at += count)
        if (at != first)
            cudaMemcpyAsync((char *)data + at, (const char *)data + first, count, cudaMemcpyDefault, stream);
    if (stream == 0)
        cudaStreamSynchronize(stream);
}

/* The same of a batch of `times` time steps, one after the other, each with all records; 1: of a list beside others,
 * which one copy brings. Ends a program whose batch has another size than the one that was scouted: it may have other
 * time steps, and lists at other places. */
static inline void
ddp_share_times(const void *data, size_t bytes, size_t scouted, size_t times, size_t each, cudaStream_t stream)
{
    size_t at;
    if (bytes != scouted)
        DDP_LINES_END("a batch, or a list in it, has %zu bytes, and ddprun scout saw %zu: scout the program with these "
                      "arguments\n",
                      bytes, scouted);
    for (at = 0; at < bytes; at += bytes / times)
        ddp_share((const char *)data + at, bytes / times, each, stream);
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
ddp_share_batches(const void *data, size_t bytes, size_t batch, size_t each, cudaStream_t stream)
{
    size_t at;
    unsigned i = 0;
    for (at = 0; at + batch <= bytes; at += batch)
        ddp_share((const char *)data + at, batch, each, stream);
    while (i < ddp_batches_count && ddp_batches[i].data != (char *)data)
        ++i;
    if (i < DDP_BATCHES_AT_MOST) {
        ddp_batches[i].data = (char *)data;
        ddp_batches[i].bytes = bytes;
        ddp_batches[i].batch = batch;
        ddp_batches_count += i == ddp_batches_count;
    }
}

/*
 * Ends a program that computes from records which do not begin where a batch of ddp_share_batches() does: its batches
 * are smaller than those that were scouted, or no multiple of them. Other memory is not looked at.
 */
static inline void
ddp_check_batch(const void *records)
{
    unsigned i;
    for (i = 0; i < ddp_batches_count; ++i) {
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

/*
 * chunk.h - the table that says what a packing kernel moves: between comm/wire.c, which writes it, and wire.cu.
 *
 * A chunk is a stretch of one member of a bucket: a block of a kernel moves a whole chunk, so that no thread searches.
 * C, and CUDA C++.
 */
#ifndef DDPRUN_COMM_KERNELS_CHUNK_H
#define DDPRUN_COMM_KERNELS_CHUNK_H

#include <stdint.h>

struct chunk {
    uint64_t address; /* in the member's memory */
    uint64_t at;      /* the same place in the packed bucket, in bytes before conversion */
    uint64_t bytes;   /* 1..CHUNK_BYTES */
};

/* 16 KiB: four rounds of 256 threads with 16 bytes each. Kernels take any number of threads. */
enum { CHUNK_BYTES = 16384, CHUNK_THREADS = 256 };

/* Blocks of a launch: enough for memory's bandwidth, few enough to leave room for the backward pass beside them. */
enum { CHUNK_BLOCKS_AT_MOST = 128 };

#endif

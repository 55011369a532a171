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

/* Members that are neighbours in memory, from which ddprun_chunks makes chunks; by value as a kernel's argument. */
struct chunk_run {
    uint64_t address, at; /* as in a chunk */
    uint64_t bytes;
    uint64_t first; /* number of its first chunk */
};

/* As many as fit into the 4,096 bytes that kernels of any GPU take. */
enum { CHUNK_RUNS_AT_MOST = 126 };

struct chunk_runs {
    uint32_t count, end; /* end: number of the chunk after the last run's */
    struct chunk_run runs[CHUNK_RUNS_AT_MOST];
};

/*
 * Digests of a bucket's chunks as they were packed. Where `stale` is not 0, nothing is packed: chunks are compared, and
 * one of which packing would give other bytes now gets the digest CHUNK_IS_STALE, and the word at `stale` becomes 1.
 */
struct chunk_digests {
    uint64_t digests; /* address of a uint64_t for each chunk */
    uint64_t stale;   /* address of a uint32_t; 0: they are packed */
};
enum { CHUNK_IS_STALE = 0 }; /* also a digest, once in 2^64 */

/*
 * Whether unpacking may write: count + 1 words of all ranks (interpose/engine/send/speculation.c), of which all but the
 * last must be 0, and the last `expected`. No words: it may.
 */
struct chunk_guard {
    uint64_t words; /* address of uint32_t[count + 1]; 0: there are none */
    uint32_t count, expected;
};

/* 16 KiB: four rounds of 256 threads with 16 bytes each. Kernels take any number of threads. */
enum { CHUNK_BYTES = 16384, CHUNK_THREADS = 256 };

/* Blocks of a launch: enough for memory's bandwidth, few enough to leave room for the backward pass beside them. */
enum { CHUNK_BLOCKS_AT_MOST = 512 };

#endif

/*
 * graph.h - which bytes of which operation became which bytes of a later one: versions of memory, and the edges between
 * them, over a window of the log's deep pass.
 *
 * A version is what one operation left in one segment of an allocation; segments lie between the offsets that any
 * operation of the window names. Versions are numbered so that each comes after those that it was computed from.
 *
 * Pure logic on a log. Threads: one at a time for each graph.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_GRAPH_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_GRAPH_H

#include "tools/scout/format/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VERSION_BEFORE = -1, VERSION_UNDEFINED = -2, HOST_MEMORY = -1 };

/* Position in the later version = to_base + (position in the earlier one - from_base) / from_bytes * to_bytes. */
struct graph_map {
    uint64_t from_base, to_base;
    uint32_t from_bytes, to_bytes;
};

struct graph_edge {
    uint32_t from, to; /* versions */
    bool elementwise;
    struct graph_map map; /* if elementwise */
};

struct graph_version {
    int32_t op;                  /* in the window; VERSION_BEFORE: what was there; VERSION_UNDEFINED: new memory */
    int32_t memory;              /* of struct graph; HOST_MEMORY: a copy to the host */
    uint64_t lo, hi;             /* all of it lies there, in bytes of the allocation */
    uint64_t bytes;              /* of it */
    uint64_t read;               /* most bytes of it that one later operation reads */
    uint32_t type;               /* enum scout_type */
    bool from_host;              /* a copy from the host */
    bool unsure;                 /* of an operation of which nothing is known, or that reads more than its arguments */
    uint32_t first_in, in_count; /* graph_edge: from earlier versions */
    uint32_t first_out, out_count; /* of graph->outs: numbers of edges */
};

/* Bytes and the version that they hold. */
struct graph_span {
    uint64_t lo, hi;
    uint32_t version;
};

/* Allocations of the same size that are made again and again in the same place are one memory. */
struct graph_memory {
    uint64_t bytes;
    uint32_t ordinal;
    uint32_t alloc; /* number of the log's allocation, of which there may be several: the last one */
    bool written;   /* in the window */
    uint64_t *cuts; /* [cut_count], sorted, from 0 to bytes */
    uint32_t cut_count;
    struct graph_span *spans; /* the bytes' present versions, sorted, without gaps: at the end of the window */
    uint32_t span_count, span_room;
};

struct graph {
    const struct scout_log *log;
    uint32_t first, count; /* operations of the log: the window */
    struct graph_memory *memories;
    uint32_t memory_count;
    uint32_t *memory_of; /* [log->alloc_count] */
    struct graph_version *versions;
    struct graph_edge *edges; /* by `to` */
    uint32_t *outs;
    uint32_t version_count, version_room, edge_count, edge_room;
};

/* The memory of each allocation of the log, in memory_of[]; returns the number of memories. The caller frees it. */
uint32_t graph_name_memories(const struct scout_log *log, uint32_t **memory_of);

/* The graph of operations [first, first + count), all of the deep pass. graph_free() releases it. */
void graph_build(const struct scout_log *log, uint32_t first, uint32_t count, struct graph *graph);
void graph_free(struct graph *graph);

/* The operation of a version, NULL for what was there before. */
const struct scout_op *graph_op(const struct graph *graph, const struct graph_version *version);

#endif

/*
 * builder.h - a graph while it is built: what graph.c, memories.c and targets.c share. Only these include it.
 *
 * graph.c goes through the operations of the window in their order. For each it collects the bytes that the operation
 * leaves (targets), arranges them, makes a version of each segment's targets with edges from what the operation read,
 * and only then lets the versions take their place in the memory: an operation reads what was there before it.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_BUILDER_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_BUILDER_H

#include "tools/scout/command/analysis/rules.h"

/* Bytes [lo, hi) of a memory of the graph, by its number, that the operation being added leaves. */
struct target {
    uint32_t memory;
    uint64_t lo, hi;
};

/* What an edge leads from and to, by number: versions move as long as their list grows. */
struct ends {
    uint32_t from, to;
};

struct builder {
    struct graph *graph;
    struct ends *ends; /* [graph->edge_count] */
    uint32_t ends_count;
    struct target *targets; /* [target_count]: of the operation being added */
    uint32_t target_count;
    uint32_t *seen;    /* by version: the version that its last edge leads to, which it does not lead to twice */
    uint32_t *edge_at; /* by version: the number of that edge */
    uint32_t seen_room;
};

/* ---- memories.c ---- */

/* Names the memories of the graph's log, cuts them into segments at all offsets that operations of the window name, and
 * fills them with versions of no operation, one for each segment. Once, before the first operation. */
void builder_name_and_cut(struct graph *graph);
/* The number of the memory of an allocation that the operation being added names. An allocation that was made again
 * since the last operation on its memory holds nothing yet: its segments become VERSION_UNDEFINED. */
uint32_t builder_enter_memory(struct graph *graph, uint32_t alloc);
/* Adds a copy of the version, with its number, period and position, and returns its number. Pointers to versions are
 * not valid any longer. */
uint32_t builder_add_version(struct graph *graph, const struct graph_version *version);
/* Index of the first span of the memory that ends after byte `lo`. */
uint32_t builder_span_at(const struct graph_memory *memory, uint64_t lo);
/* The end, in bytes, of the segment of the memory in which byte `lo` lies. */
uint64_t builder_segment_end(const struct graph_memory *memory, uint64_t lo);

/* ---- targets.c ---- */

/* Adds bytes [lo, hi) of a memory to the targets; nothing where hi <= lo. */
void builder_add_target(struct builder *builder, uint32_t memory, uint64_t lo, uint64_t hi);
/* Sorts the targets by memory and byte, joins those that overlap or touch, and splits them at the ends of segments. */
void builder_arrange_targets(struct builder *builder);
/* Adds the version that the arranged targets of one segment make, from index `first` on; *end becomes the index after
 * the last of them. Returns the version's number. */
uint32_t builder_begin_version(struct builder *builder, int32_t op, uint32_t first, uint32_t *end);
/* After all edges of the operation: its versions, `number` the first of them, become what their memories hold. */
void builder_put_versions(struct builder *builder, uint32_t number);

#endif

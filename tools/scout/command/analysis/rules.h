/*
 * rules.h - from versions of memory to its roles. A file calls only those above it. Pure logic on a log. Threads: one
 * at a time for each graph.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_RULES_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_RULES_H

#include "launcher/common/xcalloc.h"
#include "tools/scout/command/analysis/finding.h"

/*
 * ---- graph.c: which bytes of which operation became which bytes of a later one: versions of memory, and the edges
 * between them, over a window of the log's deep pass.
 *
 * A version is what one operation left in one segment of an allocation; segments lie between the offsets that any
 * operation of the window names. Versions are numbered so that each comes after those that it was computed from.
 */
enum { VERSION_BEFORE = -1, VERSION_UNDEFINED = -2, HOST_MEMORY = -1 };

/* Position in the later version = to_base + (position in the earlier one - from_base) / from_bytes * to_bytes. */
struct graph_map {
    uint64_t from_base, to_base;
    uint32_t from_bytes, to_bytes;
};

struct graph_edge {
    struct graph_version *from, *to;
    bool elementwise;
    bool goes;            /* a mark of finding.c's rules: each element goes to one element */
    struct graph_map map; /* if elementwise */
};

struct graph_version {
    uint32_t number;             /* of the graph's */
    int32_t op;                  /* in the window; VERSION_BEFORE: what was there; VERSION_UNDEFINED: new memory */
    int32_t period;              /* of the window; -1: it was there before the first */
    uint32_t position;           /* of its operation in the period */
    int32_t memory;              /* of struct graph; HOST_MEMORY: a copy to the host */
    uint64_t lo, hi;             /* all of it lies there, in bytes of the allocation */
    uint64_t bytes;              /* of it */
    uint32_t type;               /* enum scout_type */
    bool from_host;              /* a copy from the host */
    bool unsure;                 /* of an operation of which nothing is known, or that reads more than its arguments */
    const struct graph_edge *in; /* [in_count]: from earlier versions */
    const struct graph_edge **out; /* [out_count]: to later ones */
    uint32_t in_count, out_count;

    /* Of a graph of two periods: the marks of finding.c's rules. */
    bool source, constant; /* data; data that is the same in each period */
    bool tainted;          /* computed from data */
    bool past;             /* computed from data past the gradients */
    bool persistent;       /* read in the next period */
    bool parameter;        /* a parameter's new value */
    bool between;          /* a parameter's value between two steps of the period */
    bool carried;          /* such a loop, but no element comes from its own old value */
    bool leads;            /* to a parameter, in this period */
    bool inner;            /* all that it has from data comes element by element, scalars aside */
    bool chain;            /* on the elementwise way to a parameter */
    bool vector;           /* of a few numbers, and no scalars */
    bool gradient;
    uint8_t scales; /* a scalar: 1: all its ways to parameters enter the way on its inside; 2: not; 0: not asked */
    uint8_t kept;   /* 1: it leads to a gradient by its own place only; 2: not; 0: not asked */

    /* by_state.c's marks. */
    bool from_data, from_state; /* computed from them, whenever */
    bool needed;                /* by all ranks */
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
    uint32_t span_count;
};

struct graph {
    const struct scout_log *log;
    uint32_t first, count; /* operations of the log: the window */
    uint32_t period;       /* of whole periods of so many */
    struct graph_memory *memories;
    uint32_t memory_count;
    uint32_t *memory_of; /* [log->alloc_count] */
    struct graph_version *versions;
    struct graph_edge *edges;       /* by `to` */
    const struct graph_edge **outs; /* by `from` */
    uint32_t version_count, edge_count;
    bool has_large; /* copies from the host, larger than a few numbers: sources_find() */
};

/* The memory of each allocation of the log, in memory_of[]; returns the number of memories. The caller frees it. */
uint32_t graph_name_memories(const struct scout_log *log, uint32_t **memory_of);

/* The graph of so many periods from operation `first` on, all of the deep pass. graph_free() releases it. */
void graph_build(const struct scout_log *log, uint32_t first, uint32_t period, uint32_t periods, struct graph *graph);
void graph_free(struct graph *graph);

/* Whether some of [lo, hi) lies in the ranges. */
bool graph_ranges_meet(const struct scout_ranges *ranges, uint64_t lo, uint64_t hi);

/* The operation of a version, NULL for what was there before. */
const struct scout_op *graph_op(const struct graph *graph, const struct graph_version *version);

/* Edges of a version: from earlier ones, as long as `done` is false; and to later ones. */
#define FOR_EACH_IN_UNTIL(edge, version, done) FOR_EACH_UNTIL(edge, (version)->in, (version)->in_count, done)
#define FOR_EACH_IN(edge, version)             FOR_EACH_IN_UNTIL(edge, version, false)
#define ANY_IN(edge, version, holds)           ANY(edge, (version)->in, (version)->in_count, holds)
#define ALL_IN(edge, version, holds)           (!ANY_IN(edge, version, !(holds)))
#define ANY_OUT(edge, version, holds)                                    \
    ANY(edge##_at, (version)->out, (version)->out_count, __extension__({ \
            const struct graph_edge *edge = *edge##_at;                  \
            holds;                                                       \
        }))
#define ALL_OUT(edge, version, holds) (!ANY_OUT(edge, version, !(holds)))

/* All versions of a graph, and whether something holds of any. */
#define FOR_EACH_VERSION(version, graph)   FOR_EACH_MUTABLE(version, (graph)->versions, (graph)->version_count)
#define ANY_VERSION(version, graph, holds) ANY(version, (graph)->versions, (graph)->version_count, holds)

/* Whether a version is of the first period, or was there before. */
static inline bool
version_in_period(const struct graph_version *version)
{
    return version->period <= 0;
}

static inline bool
version_overlaps(const struct graph_version *a, const struct graph_version *b)
{
    return a->memory == b->memory && a->lo < b->hi && b->lo < a->hi;
}

/*
 * ---- finding.c: from the versions of two periods to the roles of memory.
 *
 * The rules are facts about training: a parameter's new value is computed, element by element, from its old one, which
 * the data's way to it has passed; its gradient is the most upstream version on that elementwise way from which no
 * other way leads to a parameter.
 */
enum roles_verdict { ROLES_FOUND, ROLES_NO_LOOP, ROLES_REFUSED };

/* ---- types.c: of which type tensors are ---- */
/* Gives each tensor of a finding whose roles were found its type. ROLES_REFUSED, with the finding's reason: two types
 * are said of a tensor, or of a parameter or gradient none is known. `graph`: of the finding's period and the next. */
enum roles_verdict types_find(const struct graph *graph, struct scout_finding *finding);

/* ---- groups.c: which gradients are complete together, and before which operation they must be averaged ---- */
/* Adds groups to a finding whose tensors are known, and joins tensors that lie side by side. `graph`: of its period and
 * the next. */
void groups_find(const struct graph *graph, struct scout_finding *finding);

/* ---- the rules by which finding.c finds roles, in the order in which they need each other ---- */
/* What is not larger than SCALAR_BYTES may be a few scalars: norms, flags, counts; if it is larger than an element,
 * which is one number, only if it is computed from gradients. */
enum { SCALAR_BYTES = 256, DATA_BYTES = 64, ELEMENT_BYTES = 8 };

/* ---- versions.c ---- */
/* The last edge to a version from its own place, element by element or not; NULL: there is none. */
const struct graph_edge *version_own_edge(const struct graph_version *version, bool elementwise);
/* The argument of a launch in which a version lies; NULL: in none. */
const struct scout_argument *version_argument(const struct graph *graph, const struct graph_version *version,
                                              const struct scout_op *op);
const char *version_op_name(const struct graph *graph, const struct graph_version *version,
                            char text[SCOUT_NAME_BYTES]);
uint32_t version_alloc(const struct graph *graph, const struct graph_version *version);
/* "a3[0:4096]" */
const char *version_place(const struct graph *graph, const struct graph_version *version, char text[64]);

/* ---- names.c: what a finding says: notes, and the reason of a refusal ---- */
#define note_add(finding, ...)             note_take(finding, xasprintf(__VA_ARGS__))
#define note_refuse(finding, verdict, ...) note_take_reason(finding, verdict, xasprintf(__VA_ARGS__))
/* The texts are malloc'ed, and theirs from then on. */
void note_take(struct scout_finding *finding, char *text);
enum roles_verdict note_take_reason(struct scout_finding *finding, enum roles_verdict verdict, char *reason);

/* ---- sources.c: where data comes from, and what is computed from it ---- */
/* A copy of a few numbers from the host, where larger ones bring the data: a rate, a scale, a count; a small batch. */
bool source_is_small(const struct graph_version *version);
/* The marks `source`, `constant` and `tainted`. */
void sources_find(struct graph *graph);
/* Marks by number, malloc'ed, of what is computed within the period from a version, or from what was `before` in its
 * place. */
bool *sources_of(const struct graph *graph, const struct graph_version *version, bool before);

/* ---- stays.c: what stays from period to period, what feeds back, and which of it are parameters ---- */
void stays_find(struct graph *graph, const struct scout_finding *finding);
/* Whether what was in the version's place before the period leads to it, or to what it was on the way, through other
 * memory; `directly`: and not through a value that a parameter has between two steps. */
bool stays_feeds_back(const struct graph *graph, const struct graph_version *version, bool directly);
/* Whether the version is computed, element by element, from what it, or state that no rank keeps for itself, was before
 * the period. */
bool stays_from_itself(const struct graph *graph, const struct graph_version *version);
void stays_find_parameters(struct graph *graph);
/* Marks what leads to a parameter in this period; a parameter's new value leads to itself. */
void stays_find_leading(struct graph *graph);
/* Whether a way from the version's edge leads to a parameter in this period. */
static inline bool
edge_leads(const struct graph_edge *edge)
{
    return version_in_period(edge->to) && edge->to->leads;
}

/* ---- elementwise.c: the elementwise way from a parameter upwards ---- */
/* The mark `goes` of edges. */
void elementwise_find_edges(struct graph *graph);
bool elementwise_may_scale(const struct graph_version *version);
/* An input that matters on the way: computed from data, and no constant of the update itself. */
bool elementwise_matters(const struct graph_edge *edge);
/* One along which each element goes to one element. */
bool elementwise_leads_up(const struct graph_edge *edge);
/* Whether all that a version has from data comes element by element, scalars aside: the mark `inner`. */
bool elementwise_is_inner(const struct graph_version *version);
/* From the parameters upwards; a version comes after all that uses it. */
void elementwise_find_chain(struct graph *graph);
/* Whether what a version read of `rest` is only what a later version of the same memory, on the way, left as it was:
 * rows that a batch does not touch. */
bool elementwise_is_rest(const struct graph_version *version, const struct graph_version *rest);
/* Whether a version has something from data element by element, and not only from its own place. */
bool elementwise_has_others(const struct graph_version *version);
/* Whether the way up goes on from a version: all that it has from data is on the way, scalars aside. */
bool elementwise_goes_on(const struct graph *graph, const struct graph_version *version);
/* Whether a version leads, in this period, to parameters other than itself; the last of them. */
uint32_t elementwise_parameters_behind(const struct graph *graph, const struct graph_version *version,
                                       const struct graph_version **last);

/* ---- gradients.c: gradients: where a parameter's way up ends ---- */
/* Once. Returns its number. */
uint32_t gradients_add_tensor(struct scout_finding *finding, enum scout_role role, uint32_t alloc,
                              struct scout_range at, uint32_t type, uint32_t pair, uint32_t writer);
uint32_t gradients_log_op(const struct graph *graph, const struct graph_version *version);
/* What is used as a few scalars on the way, and is not computed from gradients, is a vector, where it is added to a
 * sum: what a gradient is computed from. Whether there was one. */
bool gradients_find_vectors(struct graph *graph);
/* A sum that a net keeps, such as that of a recurrent cell, looks like a parameter until its way up is known: it has no
 * gradient of its own, and other parameters' gradients are computed from its new value. Whether there was one. */
bool gradients_find_kept_sums(struct graph *graph);
void gradients_find(struct graph *graph, struct scout_finding *finding);

/* ---- refusals.c: the proof that no data passes the gradients by, and what must be refused ---- */
/* Proof (a): with the gradients cut out no way leads from data to a parameter. */
enum roles_verdict refusals_prove_cut(struct graph *graph, struct scout_finding *finding);
enum roles_verdict refusals_judge_fused(const struct graph *graph, struct scout_finding *finding);
/* Whether what was in a version's place before the period leads to a parameter other than itself. */
bool refusals_leads_on(const struct graph *graph, const struct graph_version *version);
/* The same, of what is upstream of a gradient. */
bool refusals_leads_to_gradients(const struct graph *graph, const struct graph_version *version);
/* Whether what comes from the host leads to gradients, or is data alone, cannot be told where as much as comes has been
 * computed and sent: the host may have updated it. */
void refusals_note_host(const struct graph *graph, struct scout_finding *finding);
enum roles_verdict refusals_judge_loops(const struct graph *graph, struct scout_finding *finding);
/* Operations of which nothing is known must not lead to a parameter. */
enum roles_verdict refusals_judge_unsure(const struct graph *graph, struct scout_finding *finding);
/* An operation of which not all is known may be the way by which something is a parameter: what stays behind it. */
void refusals_note_unsure(const struct graph *graph, struct scout_finding *finding);

/* ---- states.c: what stays beside parameters: which state it is ---- */
enum roles_verdict states_find(const struct graph *graph, struct scout_finding *finding);

#endif

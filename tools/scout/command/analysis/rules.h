/*
 * rules.h - the rules by which roles.c finds roles, in the order in which they need each other: a file calls only those
 * above it.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_RULES_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_RULES_H

#include "tools/scout/command/analysis/roles.h"

/* What is not larger than SCALAR_BYTES may be a few scalars: norms, flags, counts; if it is larger than an element,
 * which is one number, only if it is computed from gradients. */
enum { SCALAR_BYTES = 256, DATA_BYTES = 64, ELEMENT_BYTES = 8 };

/* ---- versions.c ---- */
static inline const struct graph_version *
version_of(const struct roles *roles, uint32_t number)
{
    return &roles->graph->versions[number];
}

static inline bool
version_in_period(const struct roles *roles, uint32_t number)
{
    return version_of(roles, number)->op < (int32_t)roles->period;
}

static inline const struct graph_edge *
version_in_edge(const struct roles *roles, uint32_t number, uint32_t i)
{
    return &roles->graph->edges[version_of(roles, number)->first_in + i];
}

static inline const struct graph_edge *
version_out_edge(const struct roles *roles, uint32_t number, uint32_t i)
{
    return &roles->graph->edges[roles->graph->outs[version_of(roles, number)->first_out + i]];
}

static inline bool
version_overlaps(const struct graph_version *a, const struct graph_version *b)
{
    return a->memory == b->memory && a->lo < b->hi && b->lo < a->hi;
}

const char *version_op_name(const struct roles *roles, uint32_t number, char text[SCOUT_NAME_BYTES]);
uint32_t version_alloc(const struct roles *roles, uint32_t number);
/* "a3[0:4096]" */
const char *version_place(const struct roles *roles, uint32_t number, char text[64]);

/* ---- notes.c: what a finding says: notes, and the reason of a refusal ---- */
void note_add(struct scout_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum roles_verdict note_refuse(struct scout_finding *finding, enum roles_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- sources.c: where data comes from, and what is computed from it ---- */
/* A copy of a few numbers from the host, where larger ones bring the data: a rate, a scale, a count; or a small batch.
 */
bool source_is_small(const struct graph_version *version);
void sources_find(struct roles *roles);
/* Marks what is computed from sources within the period, not through what is blocked. */
void sources_spread(const struct roles *roles, bool *marks, const bool *sources, const bool *blocked);

/* ---- stays.c: what stays from period to period, what feeds back, and which of it are parameters ---- */
void stays_find(struct roles *roles);
/* Whether what was in the version's place before the period leads to it, or to what it was on the way, through other
 * memory; `directly`: and not through a value that a parameter has between two steps. */
bool stays_feeds_back(const struct roles *roles, uint32_t number, bool directly);
/* Whether the version is computed, element by element, from what it, or state that no rank keeps for itself, was before
 * the period. */
bool stays_from_itself(const struct roles *roles, uint32_t number);
/* An edge between versions in one place, where the later one is made of the earlier one alone, though not element by
 * element: it is scaled by its own norm. What holds for all of the earlier one holds for the later one. */
bool stays_made_again(const struct roles *roles, const struct graph_edge *edge);
void stays_find_parameters(struct roles *roles);
/* Marks what leads to a parameter in this period; a parameter's new value leads to itself. */
void stays_find_leading(struct roles *roles);

/* ---- elementwise.c: the elementwise way from a parameter upwards ---- */
bool elementwise_may_scale(const struct roles *roles, uint32_t number);
/* An edge along which each element goes to one element. */
bool elementwise_goes(const struct roles *roles, const struct graph_edge *edge);
/* An input that matters on the way: computed from data, and no constant of the update itself. */
bool elementwise_matters(const struct roles *roles, const struct graph_edge *edge);
/* Whether all that a version has from data comes element by element, scalars aside: roles->inner. */
bool elementwise_is_inner(const struct roles *roles, uint32_t number);
/* From the parameters upwards; a version comes after all that uses it. */
void elementwise_find_chain(struct roles *roles);
/* Whether what a version read of `rest` is only what a later version of the same memory, on the way, left as it was:
 * rows that a batch does not touch. */
bool elementwise_is_rest(const struct roles *roles, uint32_t number, uint32_t rest);
/* Whether a version has something from data element by element, and not only from its own place. */
bool elementwise_has_others(const struct roles *roles, uint32_t number);
/* Whether the way up goes on from a version: all that it has from data is on the way, scalars aside. */
bool elementwise_goes_on(const struct roles *roles, uint32_t number);
/* Whether a version leads, in this period, to parameters other than itself; the last of them. */
uint32_t elementwise_parameters_behind(const struct roles *roles, uint32_t number, uint32_t *last);

/* ---- gradients.c: gradients: where a parameter's way up ends ---- */
uint32_t gradients_add_tensor(struct scout_finding *finding, const struct scout_tensor *tensor);
uint32_t gradients_log_op(const struct roles *roles, uint32_t number);
/* What is used as a few scalars on the way, and is not computed from gradients, is a vector, where it is added to a
 * sum: what a gradient is computed from. Whether there was one. */
bool gradients_find_vectors(struct roles *roles);
/* A sum that a net keeps, such as that of a recurrent cell, looks like a parameter until its way up is known: it has no
 * gradient of its own, and other parameters' gradients are computed from its new value. Whether there was one. */
bool gradients_find_kept_sums(struct roles *roles);
void gradients_find(struct roles *roles, struct scout_finding *finding);

/* ---- refusals.c: the proof that no data passes the gradients by, and what must be refused ---- */
/* Proof (a): with the gradients cut out no way leads from data to a parameter. */
enum roles_verdict refusals_prove_cut(struct roles *roles, struct scout_finding *finding);
enum roles_verdict refusals_judge_fused(const struct roles *roles, struct scout_finding *finding);
/* Whether what was in a version's place before the period leads to a parameter other than itself. */
bool refusals_leads_on(const struct roles *roles, uint32_t number);
/* The same, of what is upstream of a gradient. */
bool refusals_leads_to_gradients(const struct roles *roles, uint32_t number);
/* Whether what comes from the host leads to gradients, or is data alone, cannot be told where as much as comes has been
 * computed and sent: the host may have updated it. */
void refusals_note_host(const struct roles *roles, struct scout_finding *finding);
enum roles_verdict refusals_judge_loops(const struct roles *roles, struct scout_finding *finding);
/* Operations of which nothing is known must not lead to a parameter. */
enum roles_verdict refusals_judge_unsure(const struct roles *roles, struct scout_finding *finding);
/* An operation of which not all is known may be the way by which something is a parameter: what stays behind it. */
void refusals_note_unsure(const struct roles *roles, struct scout_finding *finding);

/* ---- states.c: what stays beside parameters: which state it is ---- */
enum roles_verdict states_find(const struct roles *roles, struct scout_finding *finding);

#endif

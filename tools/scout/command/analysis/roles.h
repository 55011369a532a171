/*
 * roles.h - from the versions of two periods to the roles of memory.
 *
 * The rules are facts about training: a parameter's new value is computed, element by element, from its old one, which
 * the data's way to it has passed; its gradient is the most upstream version on that elementwise way from which no
 * other way leads to a parameter.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_ROLES_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_ROLES_H

#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/graph.h"

/* A graph of two periods; [i] is about version i. */
struct roles {
    const struct graph *graph;
    uint32_t period;
    bool *source, *constant; /* data; data that is the same in each period */
    bool *tainted;           /* computed from data */
    bool has_large;          /* copies from the host, larger than a few numbers */
    bool *past;              /* computed from data past the gradients */
    bool *persistent;        /* read in the next period */
    bool *parameter;         /* a parameter's new value */
    bool *between;           /* a parameter's value between two steps of the period */
    bool *carried;           /* such a loop, but no element comes from its own old value */
    bool *leads;             /* to a parameter, in this period */
    bool *inner;             /* all that it has from data comes element by element, scalars aside */
    bool *chain;             /* on the elementwise way to a parameter */
    bool *vector;            /* of a few numbers, and no scalars */
    uint8_t *scales; /* a scalar: 1: all its ways to parameters enter the way on its inside; 2: not; 0: not asked */
    uint8_t *kept;   /* 1: it leads to a gradient by its own place only; 2: not; 0: not asked */
    bool *gradient;
};

enum roles_verdict { ROLES_FOUND, ROLES_NO_LOOP, ROLES_REFUSED };

/* Fills in tensors, notes and, with ROLES_REFUSED or ROLES_NO_LOOP, the reason of `finding`. */
enum roles_verdict roles_find(const struct graph *graph, uint32_t period, struct scout_finding *finding);

/* ---- types.c: of which type tensors are ---- */
/* Gives each tensor of a finding whose roles were found its type. ROLES_REFUSED, with the finding's reason: two types
 * are said of a tensor, or of a parameter or gradient none is known. `graph`: of the finding's period and the next. */
enum roles_verdict types_find(const struct graph *graph, struct scout_finding *finding);

/* ---- groups.c: which gradients are complete together, and before which operation they must be averaged ---- */
/* Adds groups to a finding whose tensors are known, and joins tensors that lie side by side. `graph`: of its period and
 * the next. */
void groups_find(const struct graph *graph, uint32_t period, struct scout_finding *finding);

#endif

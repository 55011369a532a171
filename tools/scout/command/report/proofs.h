/*
 * proofs.h - what came of the proofs of a plan by two ranks (tools/scout/command/proofs/prove.h).
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_PROOFS_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_PROOFS_H

#include "launcher/common/error.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/turns.h"

#include <stdio.h>

enum proof_end { PROOF_NOT_ASKED, PROOF_PASSED, PROOF_FAILED, PROOF_IMPOSSIBLE };

struct proof {
    enum proof_end end;
    bool is_run_failed;         /* failed, for a run has: nothing was compared */
    char text[1024];            /* what was seen, or why not */
    char name[160];             /* of the tensor that it names */
    struct scout_bytes scratch; /* not passed: what a step may use as scratch */
};

struct json_object;

struct scout_proofs {
    struct proof halves;     /* (c): exchanged halves of batches leave the average as it was */
    struct proof complete;   /* by state: what has no class may hold anything else at a border, and nothing differs */
    struct proof turns;      /* (d): ranks that take turns do what one process does that plays all turns */
    struct play_times times; /* of both runs of (d) */
    struct proof own;        /* what --per-rank names: each element depends on one half of a batch alone */
    struct json_object *played; /* for (d): how ranks take turns, or {"reason": why they cannot}; NULL: not asked */
    bool by_state;              /* ranks take turns by state: no gradient was looked for */
    bool needs_halves; /* (c) must pass: gradients are scaled before they are averaged, or the exchange changed them */
};

/* "passed", "failed", "not possible here". Static storage. */
const char *proof_end_name(enum proof_end end);

/* The proof by which the plan is not proved; NULL: it is, or nothing was asked for. What is not possible is not passed,
 * but for (c) where (d) has passed and (c) is not needed. */
const struct proof *proofs_missing(const struct scout_proofs *proofs);

/* A line for each that was asked for. */
void proofs_print(FILE *out, const struct scout_proofs *proofs);

/* ---- plan.c: what a scouted run showed, for programs: the JSON of `ddprun scout --json` (docs/scout.md) ---- */
#define SCOUT_PLAN_VERSION 3

/* Writes it, with mode 0600: it names files and addresses of the program. Error: the file cannot be written. */
bool plan_write(const char *path, char *const *words, const struct scout_log *log, const struct scout_finding *finding,
                const struct scout_proofs *proofs, struct error *error) MUST_USE;

/* ---- print.c: what a scouted run showed, for people ---- */
/* Of a program whose gradients are found: the period, the tensors, the evidence, and the lines to add, or, if it is
 * annotated, what is missing and superfluous. `path`: takes the lines as a diff; may be NULL. `verbose`: tables of all
 * tensors, and the diff. A finding that is open is found if its lines settle what is in question. Error: the diff
 * cannot be applied, or not be written. */
bool scout_print(FILE *out, const struct scout_log *log, struct scout_finding *finding, const char *path, bool verbose,
                 struct error *error) MUST_USE;
/* Of a plan by state: the period. */
void by_state_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding,
                    const struct turns *by_state);

#endif

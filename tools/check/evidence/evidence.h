/*
 * evidence.h - what the runs of a check have left behind, for the verdict.
 */
#ifndef DDPRUN_TOOLS_CHECK_EVIDENCE_EVIDENCE_H
#define DDPRUN_TOOLS_CHECK_EVIDENCE_EVIDENCE_H

#include "base/printable.h"
#include "tools/check/evidence/facts.h"
#include "tools/check/format/run.h"

/* The rows of one rank in one run. */
struct check_rows {
    struct check_row *rows; /* [count] */
    size_t count;
};

/* Files that several ranks of a run write, or change otherwise, by one name: in a training each rank would replace what
 * the others have written. */
struct written_file {
    char *path; /* absolute */
    int *ranks; /* [rank_count], at least two, ascending */
    int rank_count;
};

struct written {
    struct written_file *files; /* [count], by path */
    size_t count;
};

/* The most runs that repeat the one that is checked. */
enum { CHECK_REPEATS = 3 };

struct check_evidence {
    unsigned steps;          /* that were compared */
    int ranks;               /* N */
    double tolerance;        /* relative difference that counts as equal; below 0: as limits_settle() finds best */
    bool is_asked;           /* it was given; filled in by limits_settle() */
    double bearable;         /* above this nothing counts as equal; filled in by limits_settle() */
    bool forced;             /* every step began from the reference, but for CUDA graphs */
    bool sums;               /* --reduce sum */
    bool by_plan;            /* --plan: ranks take turns, and one process plays all turns; a step is a round */
    int wire_type;           /* of element.h, that --compress sends gradients as; 0: their own */
    struct check_rows alone; /* of the run that wrote the reference: notes only */
    struct check_rows again; /* one rank, compared with itself; count 0: not known */
    struct check_rows perturbed;
    struct check_rows *ranked; /* [ranks]: the run that is checked */
    struct check_rows probe;   /* what becomes of changes to unannotated memory; count 0: no such run */
    struct check_rows scaled;  /* one rank, whose gradients are so many times the reference's as the ranks' are; in
                                  rounds: whose first results of DDP_REDUCE are changed */
    struct check_rows far;     /* copies of one rank from quite other parameters; count 0: no such run */
    struct check_rows nudged;  /* one rank, each of whose steps begins a unit in the last place from the reference, by
                                  another pattern in each of so many runs: */
    unsigned nudged_runs;
    struct check_rows blind;  /* of a program with turns: what rank 0's host calls if it does not see other turns; count
                                 0:  no such run, or all the same */
    bool is_blind_stuck;      /* which has failed, or not gone on */
    struct check_rows *plain; /* [ranks]: the same as `ranked` without overlap; NULL: no such run */
    struct check_rows *repeats[CHECK_REPEATS]; /* [ranks] of each: the run that is checked, once more; NULL: no such
                                                  run, and none after it */
    bool one_date;                             /* all ranks began with one date and the same random bytes */
    unsigned readings;                         /* of enum check_reading: what the program has read */
    char reading_places[400];                  /* "`time` (train.cu:12)"; empty: it has read none */
    bool reads_stdin;          /* ranks above 0 of the run that is checked have read their stdin, which is empty */
    bool is_same_data;         /* the engines of the run that is checked have said that all ranks train on the same */
    uint64_t overlapped_steps; /* of the run that is checked */
    char stopped[1024];        /* why ddprun ended it; empty: it did not */
    unsigned common_end;       /* with `stopped`: all ranks have ended by themselves after this step; 0: not so */
    char refuted[1100];        /* --plan: a proof of the plan that has failed, with its sentence; empty: none has */
    char unproved[1100];       /* one that is not possible, and is asked for; empty: there is none */
    struct written written;    /* files that several ranks of it write; none where ranks run on other hosts */
};

/* Appends what rank `rank` has written; none is no error. */
void check_rows_append(struct check_rows *rows, const char *results, int rank);
void check_rows_free(struct check_rows *rows);
/* The first row of a kind, or NULL. */
const struct check_row *check_rows_find(const struct check_rows *rows, enum check_row_kind kind);
/* Of a kind, and of tensors of a role, the next row behind `row`, or NULL; behind NULL it is the first. */
const struct check_row *check_rows_next(const struct check_rows *rows, enum check_row_kind kind,
                                        const struct check_row *row);
const struct check_row *check_rows_next_of(const struct check_rows *rows, enum check_role role,
                                           const struct check_row *row);
/* Each row of a kind, and of tensors of a role. */
#define EACH_ROW(row, rows, kind)                                                          \
    for (const struct check_row *row = check_rows_next((rows), (kind), NULL); row != NULL; \
         row = check_rows_next((rows), (kind), row))
#define EACH_ROW_OF(row, rows, role)                                                          \
    for (const struct check_row *row = check_rows_next_of((rows), (role), NULL); row != NULL; \
         row = check_rows_next_of((rows), (role), row))
bool check_same_tensor(const struct check_tensor *tensor, const struct check_tensor *other);

/* All that was compared of all ranks has the reference's bits. */
bool check_evidence_same_bits(const struct check_evidence *evidence);

/* How many units in the last place of an element rounding makes in one update: of one that adds its step in parts, in
 * any order, more than of one that repeats its bits. */
double check_evidence_units(const struct check_evidence *evidence);

/* Every step began from the reference. */
bool check_evidence_is_forced(const struct check_evidence *evidence);

/* No DDP_STEP came: steps are rounds of DDP_REDUCE calls. */
bool check_evidence_in_rounds(const struct check_evidence *evidence);

/* DDP_TURN_BEGIN has come: ranks take turns, one process plays those of all, and a step is a round. */
bool check_evidence_takes_turns(const struct check_evidence *evidence);

/* Whether a CHECK_ROW_AFTER is of a training: three times the updates that come between two DDP_STEPs. After the last
 * DDP_STEP of a program one update of each parameter comes. */
bool check_evidence_trains_after(const struct check_row *after);

/* Shares are unequal, and weighted by DDP_WEIGHT. */
bool check_evidence_weighs(const struct check_evidence *evidence);

/* The step from which on all gradients are about N times one process's, or the Nth part, and before which they are
 * about one process's; 0: there is none. */
uint32_t check_evidence_later_factor(const struct check_evidence *evidence, double *factor_p);

/* ---- facts.c ---- */
/* All facts of the evidence (facts.h); to be freed by check_facts_free(), which leaves the evidence as it is. Pure:
 * `carried.place` and the places of readings are filled in by who reads debug information. */
void check_facts_find(const struct check_evidence *evidence, struct check_facts *facts);
void check_facts_free(struct check_facts *facts);

/* Of a further run of the ranks, with dates of its own: nothing differs from the reference, and the ranks agree. */
bool check_facts_are_right(const struct check_evidence *evidence, struct check_rows *ranked);

/* ---- written.c ---- */
/* Of `ranks` ranks whose private folders (tools/sandbox/files.h) are in `folder`. What cannot be read is not
 * there, and neither are the byte codes of Python, which it replaces as a whole. */
struct written written_find(const char *folder, int ranks);
void written_free(struct written *written);

#endif

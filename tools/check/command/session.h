/*
 * session.h - one `ddprun check` from what was asked for to its verdict: request.c prepares it, single.c makes the runs
 * of one rank and the reference, all_ranks.c those of all ranks, by_plan.c has what is different with --plan, check.c
 * decides which runs there are, and has the verdict.
 *
 * Functions that return a bool fill in the error, and its exit code, when they return false. Main thread.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_SESSION_H
#define DDPRUN_TOOLS_CHECK_COMMAND_SESSION_H

#include "launcher/common/error.h"
#include "launcher/options/options.h"
#include "launcher/start/job_folder.h"
#include "tools/check/command/origin.h"
#include "tools/check/command/place_question.h"
#include "tools/check/evidence/evidence.h"
#include "tools/check/verdict/verdict.h"

#include <signal.h>

/* ---- run.c: one run of a check: a ddprun of its own, from its start to its last process ---- */
/* In a process group of its own, and told to end when this process dies. Its output goes to files in the check's
 * folder, and is shown if the run fails. SIGCHLD and the signals that ask for the end are blocked (check.c). */

/* What all runs of a check have in common. */
struct check_place {
    const struct options *options;
    const char *folder; /* of the check, or in it */
    const char *shared; /* beginning of names of ranks' files, where other hosts have ranks, too; NULL: in `folder` */
    sigset_t old_mask;  /* for the children */
    int64_t date_us;    /* since 1970, with which compared runs begin */
    bool date_stands;   /* also when the steps have begun */
    unsigned step_limit_s; /* in which the first step, and each one after it, must come */
    int64_t begin_ms;      /* of the check */
};

struct check_order {
    const char *name;       /* of its files */
    const char *title;      /* "one rank" */
    const char *number;     /* "run 1 of 4", for the line of progress; NULL: none is shown */
    bool untold;            /* not announced: it is like the run before */
    int ranks;              /* 0: as another launcher says, which has started this process */
    char *const *arguments; /* of the program, with its name */
    bool plain;             /* --no-overlap */
    int ahead;              /* rank R has a date that is R times so many FILES_AHEAD_US later */
    int turns;              /* --plan: one process plays the turns of so many ranks; 0: not */
    bool dry;               /* --dry-run: only whether it can be started */
    bool lists_files;       /* those that several ranks write: check_run_files() */
    struct check_run run;   /* but for `results`, which is filled in */
};

struct check_outcome {
    int exit_code;       /* of the run's ddprun, or 128 + signal */
    bool program_failed; /* a rank ended by itself, with another code than 0 or by a signal */
    bool late;           /* it was ended because no step came in time */
    int signal;          /* that asked for the end of the check; 0: none */
    char reason[1024];   /* why it failed, by its summary; empty: unknown */
    uint64_t overlapped_steps;
    bool is_same_data; /* as in struct check_evidence */
    bool reads_stdin;  /* the same */
    char *results;     /* malloc'ed: for check_rows_append() */
};

/* Folder of the private folders of the run's ranks, below that of the check, malloc'ed; NULL: they are elsewhere. */
char *check_run_files(const struct check_place *place, const struct check_order *order);

/* Error: the run could not be started. A run that fails is no error. */
bool check_run_make(const struct check_place *place, const struct check_order *order, struct check_outcome *outcome,
                    struct error *error) MUST_USE;

/* Shows the last lines of what the run's ranks wrote to stderr, to stderr. */
void check_run_show(const struct check_place *place, const struct check_order *order);

/* ---- a check ---- */

struct scout_proofs;

struct check {
    const struct options *options;
    struct check_place place;
    struct job_folder folder;
    char **alone;       /* the program and its arguments in runs of one rank */
    char *reference;    /* absolute */
    bool has_reference; /* it was written before */
    bool only_writes;   /* -n 1 --reference */
    bool in_cluster;    /* another launcher has started this process, and others like it */
    int cluster_rank;
    int ranks;          /* 0: as the other launcher says */
    unsigned steps;     /* to compare; once the reference is written, as many as it has */
    bool chooses_steps; /* --steps was not given: the first run finds how many */
    bool is_free;       /* steps do not begin from the reference */
    int runs_made, runs_planned;
    struct scout_proofs *proofs; /* of the plan, made again; NULL: not yet, or there is no plan */
    bool floor_waits;            /* session_run_floor() is made only where the verdict needs it */
    const char *ranked_name;     /* of the order whose run is judged */
    struct check_evidence evidence;
    struct check_facts facts; /* of the evidence, when it was last judged */
    bool knows_turns;         /* as in struct check_run, in all runs of one process */
    int ahead;                /* of evidence.ranked, as in struct check_order */
    bool is_plain;            /* evidence.ranked is of a run without overlap (judge_late()) */
    bool fails_forced; /* the program has, on N ranks, before the last step, where steps begin from the reference */
    struct check_item sized; /* of turns_judge_size(): a tensor that the program divides by DDP_WORLD_SIZE() */
    bool answers_one;        /* there is one: from then on DDP_WORLD_SIZE() is 1 in runs of one process */
    bool has_failed; /* the program has, on N ranks, once all steps were made: that is the result if they are equal */
    struct error failure;
    char *stands; /* place.folder, where the runs have a date that stands still; else NULL */
};

/* ---- request.c ---- */
bool session_prepare(struct check *check, struct error *error) MUST_USE;

/* ---- single.c ---- */
struct check_order session_order(const struct check *check, const char *name, const char *title, enum check_mode mode);
/* Of all ranks, with dates as in the run that is judged. */
struct check_order session_order_ranks(const struct check *check, const char *name, const char *title);
bool session_start(struct check *check, const struct check_order *order, struct check_outcome *outcome,
                   struct error *error) MUST_USE;

/* Why there is no verdict, from a run that did not reach its end; shows what its ranks wrote last. `stop`: what an
 * engine has refused, or NULL; `any_step`: some step was made. Always false. */
bool session_explain(const struct check *check, const struct check_order *order, const struct check_outcome *outcome,
                     const struct check_row *stop, bool any_step, struct error *error);

/* The runs of one rank that come first, by plan only that of one process that plays all turns; with --reference FILE
 * what they find goes into the file. */
bool session_make_reference(struct check *check, struct error *error) MUST_USE;
/* What an earlier check has found on one rank. */
bool session_load_reference(struct check *check, struct error *error) MUST_USE;
/* Runs of one rank. The first SESSION_KEPT are kept in the file of --reference, by these numbers. */
enum session_run {
    SESSION_AGAIN,     /* once more */
    SESSION_PERTURBED, /* from a start nearby */
    SESSION_ALONE,     /* the run that writes the reference */
    SESSION_PROBE,     /* what becomes of changes to unannotated memory */
    SESSION_SCALED,    /* whether its update sees that its gradients are so many times as large */
    SESSION_FAR,       /* which of its copies to the device depend on the parameters */
    SESSION_KEPT,
    SESSION_NUDGED =
        SESSION_KEPT, /* which differences rounding makes where a decision hangs on it: each time by another pattern */
    SESSION_BLIND,    /* by turns.c: what its host calls where it does not see other ranks' turns */
    SESSION_RUNS,
};
/* `factor`: of SESSION_SCALED; else 0. */
bool session_run(struct check *check, enum session_run which, double factor, struct error *error) MUST_USE;
/* The two of them that show what repeating and rounding make. Both only widen what counts as equal. */
bool session_run_floor(struct check *check, struct error *error) MUST_USE;
/* What it has left. */
struct check_rows *session_rows(struct check *check, enum session_run which);

/* ---- all_ranks.c ---- */
/* Makes a run of all ranks. ranked_p[*count_p]: the rows of each, malloc'ed, also where there is no verdict. The run is
 * the one that is judged where ranked_p is the evidence's: how it ended goes into the evidence. False: there is no
 * verdict of it. */
bool session_run_ranks(struct check *check, const struct check_order *order, struct check_rows **ranked_p, int *count_p,
                       struct error *error) MUST_USE;

/* ---- floor.c: the runs that show what repeating and rounding make, where they may wait ---- */
/* After the reference is written: whether they may wait for a verdict that needs them. */
bool floor_may_wait(const struct check *check);
/* Whether the verdict of the runs so far, without them, may be another one with them. */
bool floor_is_needed(const struct check *check, const struct check_verdict *verdict);

/* ---- closer.c ---- */
/* Makes the step of the verdict's tensor once more, and puts the first operation that differs into its sentence. */
bool closer_look(struct check *check, struct check_verdict *verdict, struct error *error) MUST_USE;
/* Adds causes that the verdict's does not explain: where a seed comes in, and an update that differs by itself. */
bool closer_look_further(struct check *check, struct check_verdict *verdict, struct error *error) MUST_USE;

/* ---- question.c ---- */
/* Of the verdict's tensor: what is asked of the place where it comes about. The caller fills in the results of
 * runs. Pure. */
struct place_question question_find(const struct check_evidence *evidence, const struct check_verdict *verdict);

/* Gradients are compared as nearly as operations are: not those of 16-bit products, whose own rounding is larger. */
bool question_is_exact(const struct check_facts *facts);

/* All gradients are the Nth part of one rank's. */
bool question_is_divided(const struct check_evidence *evidence, const struct check_verdict *verdict);

/* ---- readings.c ---- */
/* Fills in `readings` and `reading_places`, from the rows of ranks. Reads the program's debug information. */
void readings_describe(struct check_evidence *evidence);

/* ---- by_plan.c: ranks that take turns, by a plan ---- */
/* Before the first run: refuses what does not go with --plan, and a plan that ranks cannot follow. */
bool by_plan_prepare(const struct check *check, struct error *error) MUST_USE;

/* Before the first run: makes the proofs of the plan again. One that has not passed is in the evidence; one that has
 * failed is all of it, and evidence.ranked is there. Without --plan it does nothing. */
bool by_plan_prove(struct check *check, struct error *error) MUST_USE;
/* Lines of what the proofs have seen of a plan that is equal. */
void by_plan_print(FILE *out, const struct check *check, const struct check_verdict *verdict);

/* After the run of all ranks: where bits differ, the runs that show what rounding and repeating make. Leaves out what
 * does not hold for turns. Without --plan it does nothing. */
bool by_plan_settle(struct check *check, struct error *error) MUST_USE;

/* ---- turns.c: ranks that take turns, by DDP_TURN_BEGIN; else all of it does nothing ---- */
/* After the run of all ranks: one more of one process, which shows what the host makes of turns that it does not see.
 */
bool turns_run_blind(struct check *check, struct error *error) MUST_USE;
/* Names what the tensors do not show, or do not name. Always true. */
bool turns_judge(const struct check_evidence *evidence, struct check_verdict *verdict);
/* turns_size.c: one more run of one process where all is equal: does the program divide by DDP_WORLD_SIZE() what
 * DDP_STEP averages? */
bool turns_judge_size(struct check *check, struct check_verdict *verdict, struct error *error) MUST_USE;
/* The last word on what to do. Returns the verdict. */
const struct check_verdict *turns_advise(const struct check_evidence *evidence, struct check_verdict *verdict);
/* The lines of what is equal, and worth a look. */
void turns_print(FILE *out, const struct check_evidence *evidence);

/* ---- printed.c: what the program has printed ---- */
/* Of a program that is equal: a line if N ranks print another figure than one process, which nothing explains
 * (evidence/figures.h), and what to do. It is no difference of the training, and changes no verdict. Nothing where runs
 * have no files of their own for what they print, as with -v. */
void printed_show(FILE *out, const struct check *check, const struct check_verdict *verdict);
/* Whether a figure differs that runs of one process would explain, if there were more than one. */
bool printed_is_open(const struct check *check, const struct check_verdict *verdict);

/* ---- show.c: the verdict of a check, for people (on stdout, before the table) and for programs (--json) ---- */
/* The verdict and what to do. `colour`: its first word has one. */
void check_print_verdict(FILE *out, const struct check_evidence *evidence, const struct check_verdict *verdict,
                         bool colour);

/* The worst tensors of each role, or all, worst first, and what limits the comparison. */
void check_print_table(FILE *out, const struct check_evidence *evidence, const struct check_verdict *verdict, bool all);

/* All tensors, and of unannotated_find()'s lines those that begin with "missing: ". False with errno; the file is then
 * as it was before. */
bool check_write_json(const char *path, const struct check_evidence *evidence, const struct check_verdict *verdict,
                      const char *annotations, int exit_code) MUST_USE;

/* The same without a verdict: why there is no verdict. */
bool check_write_json_error(const char *path, const struct error *error) MUST_USE;

#endif

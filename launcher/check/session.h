/*
 * session.h - one `ddprun check` from what was asked for to its verdict: request.c prepares it, single.c makes the runs
 * of one rank and the reference, check.c the runs of all ranks and the verdict.
 *
 * Functions that return a bool fill in the error, and its exit code, when they return false. Main thread.
 */
#ifndef DDPRUN_LAUNCHER_CHECK_SESSION_H
#define DDPRUN_LAUNCHER_CHECK_SESSION_H

#include "launcher/check/evidence.h"
#include "launcher/check/run.h"
#include "launcher/check/verdict.h"
#include "launcher/options/options.h"
#include "launcher/start/job_folder.h"

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
    int ranks; /* 0: as the other launcher says */
    unsigned steps;
    int runs_made, runs_planned;
    struct check_evidence evidence;
};

/* ---- request.c ---- */
bool session_prepare(struct check *check, struct error *error) __attribute__((warn_unused_result));

/* ---- single.c ---- */
struct check_order session_order(const struct check *check, const char *name, const char *title, enum check_mode mode);
bool session_start(struct check *check, const struct check_order *order, struct check_outcome *outcome,
                   struct error *error) __attribute__((warn_unused_result));
void session_free_outcome(struct check_outcome *outcome);

/* Why there is no verdict, from a run that did not reach its end; shows what its ranks wrote last. `stop`: what an
 * engine has refused, or NULL; `any_step`: some step was made. Always false. */
bool session_explain(const struct check *check, const struct check_order *order, const struct check_outcome *outcome,
                     const struct check_row *stop, bool any_step, struct error *error);

/* The runs of one rank that come first; with --reference FILE what they find goes into the file. */
bool session_make_reference(struct check *check, struct error *error) __attribute__((warn_unused_result));
/* What an earlier check has found on one rank. */
bool session_load_reference(struct check *check, struct error *error) __attribute__((warn_unused_result));
/* What becomes of changes to unannotated memory: that which is wished for, or all of it. */
bool session_run_probe(struct check *check, const struct check_wishes *wishes, struct error *error)
    __attribute__((warn_unused_result));
bool session_run_turns(struct check *check, struct error *error) __attribute__((warn_unused_result));

#endif

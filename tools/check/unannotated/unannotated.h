/*
 * unannotated.h - what does a program train, keep or read without an annotation, though all ranks are equal? This room
 * alone of check answers it. Where ranks differ, the verdict says that memory without annotation is the cause
 * (../verdict/unannotated.c), and this room is not asked.
 *
 * Who owns which fact:
 * - tools/check/trainer/: evidence, and no verdict. updaters.c finds the functions that update parameters,
 *   written_beside.c the memory without annotation that these write, beside_ranges.c compares that memory in each run
 *   and counts its updates. Momentum is such memory, too. README.md has the reason why scout's graph does not replace
 *   this evidence.
 * - observed.c: what that evidence shows of equal ranks. It needs no run, and sees only functions that also update
 *   annotated parameters.
 * - scouted.c: what scout's graph of one more run shows: what is computed from what, by whichever function; which
 *   DDP_STEP comes late; what no tensor depends on that is compared. It sees no memory that the host writes, and needs
 *   three equal steps.
 * - say.c: one sentence for each kind of finding. Where both have an answer, scout's is given: it names the allocation.
 *
 * Main thread.
 */
#ifndef DDPRUN_TOOLS_CHECK_UNANNOTATED_UNANNOTATED_H
#define DDPRUN_TOOLS_CHECK_UNANNOTATED_UNANNOTATED_H

#include "tools/check/evidence/evidence.h"
#include "tools/check/evidence/facts.h"

#include <signal.h>
#include <stdio.h>

struct options;

/* How the program of a check is scouted: as one process runs it. */
struct unannotated_search {
    const struct options *options;
    char *const *program; /* with its arguments */
    const char *folder;   /* of the check, for files */
    sigset_t old_mask;    /* for the child */
    unsigned limit_s;     /* in which all must be recorded */
    bool can_run;         /* no other launcher has started the ranks, and the reference is of this check */
};

/* In the order in which they are said. */
enum unannotated_kind {
    UNANNOTATED_AFTER,             /* memory that an updater has changed again and again after the last DDP_STEP */
    UNANNOTATED_READ_OF_SHARE,     /* the host reads results of the rank's share */
    UNANNOTATED_READ_OF_BATCHES,   /* or of the rank's own batches, of turns */
    UNANNOTATED_READ_OF_GRADIENTS, /* the host reads what is computed from gradients before DDP_STEP */
    UNANNOTATED_MISSING,           /* `text`: scout's lines of missing annotations and of a late DDP_STEP */
    UNANNOTATED_PARAMETER,         /* memory that an updater changes as it changes parameters */
    UNANNOTATED_NOT_SEARCHED,      /* `text`: why */
    UNANNOTATED_AVERAGE,           /* a moving average that nothing compared depends on */
    UNANNOTATED_STATISTICS,        /* results of the rank's share that nothing compared depends on */
    UNANNOTATED_KINDS
};

struct unannotated_finding {
    enum unannotated_kind kind;
    uint64_t elements;
    uint32_t argument; /* of the function, from 0 */
    char *text;        /* malloc'ed: the function that writes it; places; or as the kind says */
};

struct unannotated_findings {
    struct unannotated_finding *list; /* malloc'ed */
    size_t count;
};

/* findings.c: adds one, whose text becomes the list's; frees all, with their texts. */
void unannotated_add(struct unannotated_findings *findings, const struct unannotated_finding *finding);
void unannotated_free(struct unannotated_findings *findings);

/* observed.c: adds what the runs so far show; pure. */
void unannotated_observe(const struct check_evidence *evidence, const struct check_facts *facts,
                         struct unannotated_findings *findings);

/* scouted.c: scouts the program, unless it cannot be, and adds what its graph shows, or why there is none. */
void unannotated_scout(const struct unannotated_search *search, const struct check_evidence *evidence,
                       const struct check_facts *facts, struct unannotated_findings *findings);

/* say.c: all of it, of a check whose ranks are equal: the lines to print, malloc'ed; "": nothing is open. Lines that
 * begin with "missing: " ask for an annotation. */
char *unannotated_find(const struct unannotated_search *search, const struct check_evidence *evidence,
                       const struct check_facts *facts);

#endif

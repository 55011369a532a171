/*
 * pattern.h - what the evidence of a check has in common: where it begins to differ, how many tensors do then, and
 * which known shape the differences have. Between items.c and verdict.c, which draws the conclusions. Pure.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_PATTERN_H
#define DDPRUN_TOOLS_CHECK_COMMAND_PATTERN_H

#include "tools/check/command/evidence.h"
#include "tools/check/command/verdict.h"

struct pattern {
    unsigned moment;                /* of the first difference; 0: no difference */
    const struct check_item *first; /* that differs then; of several, the worst */
    size_t differing[CHECK_ROLES];  /* first differ at that moment */
    size_t all[CHECK_ROLES];
    size_t ever[CHECK_ROLES];        /* differ at some time */
    const struct check_item *memory; /* in a parameter's place among an updater's arguments, and differs; or NULL */
};

/* The row of a tensor at a step, or NULL. */
const struct check_row *pattern_row(const struct check_rows *rows, const struct check_tensor *tensor, uint32_t step);

/* Whether all ranks had one batch: their engines have found that, or in rounds all have passed the same to DDP_REDUCE
 * in each round in which that was looked at. */
bool pattern_has_one_batch(const struct check_evidence *evidence);

/* Of items that are sorted (items_sort()). A gradient that is zero or noise beside the others counts only if it
 * differs. */
struct pattern pattern_find(const struct check_evidence *evidence, const struct check_verdict *verdict);

/* One tensor of several, or at most a quarter of them. */
bool pattern_is_few(size_t differing, size_t all);

/* Whether every gradient of the first step is the reference's times one factor. */
bool pattern_is_scaled(const struct check_evidence *evidence, double *factor_p);

/* Whether in all steps the ranks' gradients are `factor` times the reference's. */
bool pattern_factor_holds(const struct check_evidence *evidence, double factor);

/* Each rank has as many items as one rank: N times as many are shared out, or each device gets as many bytes. */
bool pattern_takes_whole_batches(const struct check_evidence *evidence);

/* DDP_STEP_PARAMETERS averages it. */
bool pattern_is_averaged(const struct check_evidence *evidence, const struct check_tensor *tensor);

/* Items that DDP_SHARD has shared out for the gradients of a step, and that the ranks do not divide; 0: none. */
uint64_t pattern_uneven_items(const struct check_evidence *evidence, uint32_t step);

/* Nothing of such a run of the ranks differs from the reference. */
bool pattern_is_right(const struct check_evidence *evidence, const struct check_rows *ranked);

/* How far one process is from itself: the worst of parameters and gradients when it runs again, and of gradients that
 * are not equal where it starts nearby, if rounding cannot make that. */
double pattern_worst(const struct check_evidence *evidence, const struct check_verdict *verdict);

/* ---- the table of verdicts ---- */
/*
 * check_judge() finds what the runs have shown, and goes through its table (verdict.c): the first row whose evidence is
 * all there, and none that excludes it, is the verdict, unless its function finds at a closer look that it is not.
 */
enum shown {
    SHOWN_UNREPEATED = 1 << 0,    /* one rank does not repeat what it does */
    SHOWN_NOTHING = 1 << 1,       /* of a rank nothing that is trained was compared */
    SHOWN_STOP = 1 << 2,          /* ddprun ended the run, and nothing differed a whole step before */
    SHOWN_UNSTEADY = 1 << 3,      /* it differs by another amount in a second run of the ranks */
    SHOWN_RANKS = 1 << 4,         /* ranks differ from each other, before anything differs from one rank */
    SHOWN_ALARM = 1 << 5,         /* something would have ended the run */
    SHOWN_ROUNDS = 1 << 6,        /* steps are rounds of DDP_REDUCE calls */
    SHOWN_DIFFERENCE = 1 << 7,    /* something differs from one rank: `first` */
    SHOWN_PLAIN_RIGHT = 1 << 8,   /* and nothing without overlap */
    SHOWN_PLAN = 1 << 9,          /* ranks take turns by a plan */
    SHOWN_UNBOUNDED = 1 << 11,    /* it is infinite or NaN on one side only */
    SHOWN_MEMORY = 1 << 12,       /* unannotated memory differs, and what is annotated comes of it */
    SHOWN_START = 1 << 13,        /* it differs when the first step begins */
    SHOWN_RANK_0_RIGHT = 1 << 14, /* then, and on rank 0 it does not */
    SHOWN_FIRST = 1 << 15,        /* it is a gradient of the first step */
    SHOWN_GRADIENT = 1 << 16,     /* it is a gradient */
    SHOWN_RESULT = 1 << 17,       /* or a buffer or a mean: no update has made it */
    SHOWN_FEW = 1 << 19,          /* tensors like it are equal, all or nearly all */
    SHOWN_SOME = 1 << 20,         /* some gradients of the first step are equal */
    SHOWN_SCALED = 1 << 21,       /* all of them are one rank's, times one factor */
    SHOWN_UNEVEN = 1 << 23,       /* shares of the step are not equal, and not weighted */
    SHOWN_WEIGHS = 1 << 24,       /* DDP_WEIGHT */
    SHOWN_ONE_BATCH = 1 << 26,    /* all ranks compute the same */
    SHOWN_WHOLE = 1 << 27,        /* each rank takes as much as one rank alone */
};

struct judgement;
/* Says what a row of the table means here; false: at a closer look it is not. */
typedef bool judgement_fn(struct judgement *judgement);

struct verdict_row {
    enum check_cause cause;
    enum check_result result;
    uint32_t needs, excludes; /* enum shown */
    judgement_fn *say;
};

struct judgement {
    const struct check_evidence *evidence;
    struct check_verdict *verdict;
    struct check_wishes *wishes;
    struct pattern pattern;
    const struct check_item *first; /* pattern.first */
    struct agreement agreement;
    uint32_t shown;
    const struct verdict_row *row; /* whose turn it is */
};

/* Decides as the row says; the sentence begins with where `first` differs, and ends with the format's. `advice` NULL:
 * what to do stays as it is. Always true. */
bool verdict_conclude(struct judgement *judgement, const char *advice, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define verdict_decide(judgement, ...) verdict_conclude(judgement, NULL, __VA_ARGS__)
/* What to do. Always true. */
#define verdict_advise(judgement, ...) (sentence_say((judgement)->verdict->advice, __VA_ARGS__), true)

/* ---- gradients.c: gradients differ, and no update has made that so ---- */
judgement_fn gradients_say_uneven, gradients_say_factor, gradients_say_data_set, gradients_say_differ;

/* ---- update.c: annotations, and what comes between DDP_STEP and the next one ---- */
judgement_fn update_say_memory, update_say_start, update_say_wide, update_say_all;

/* Of a row of norms: false if it is no multiple of the reference. */
bool factor_of_row(const struct check_row *row, double *factor_p);

/* ", the number of ranks", ", its reciprocal", or nothing. */
const char *factor_meaning(const struct check_evidence *evidence, double factor);

/* ---- equal.c: is what does not differ from one rank equal? For verdict.c. Pure ---- */
/* Where the ranks' gradients are a multiple of one rank's, and the update is known to undo that, they do not differ;
 * *pattern is then found again. */
void equal_settle_factor(const struct check_evidence *evidence, struct check_verdict *verdict, struct pattern *pattern);

/* Nothing differs: equal, unless all ranks had one batch, a tolerance hides mistakes, or nothing has moved. A parameter
 * has become infinite or NaN on one rank, too, before anything differs: what comes then proves nothing. The ranks' bits
 * differ, before anything differs from one rank. */
judgement_fn equal_say, equal_say_endless, equal_say_ranks;
/* False: nothing of that is so. In rounds, too. */
judgement_fn equal_say_doubt;

/* ---- reductions.c: a program whose steps are rounds of DDP_REDUCE calls, and nothing has ended it ---- */
judgement_fn reductions_say_rounds;

#endif

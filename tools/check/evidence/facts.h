/*
 * facts.h - what the runs of a check have shown: each fact is computed once, by check_facts_find(), and has a name. The
 * rows of tools/check/verdict/ are functions of these facts alone.
 *
 * Facts point into the evidence that they were found in, and are valid as long as it is.
 */
#ifndef DDPRUN_TOOLS_CHECK_EVIDENCE_FACTS_H
#define DDPRUN_TOOLS_CHECK_EVIDENCE_FACTS_H

#include "tools/check/format/run.h"

enum check_reading { CHECK_READS_DATE = 1, CHECK_READS_RANDOM = 2 };

/* One tensor over all steps and ranks. Differences are relative (items.h); the larger of the whole's and a block's. */
struct check_item {
    struct check_tensor tensor;
    double difference;   /* of the worst step and rank */
    double typical;      /* the largest, beside what tensors of the role typically have: little of noise */
    double floor;        /* of that step */
    uint32_t worst_step; /* 0: never compared */
    int worst_rank;
    bool differs;
    uint32_t first_step;   /* in which it differs, by `first_rank`; 0: none */
    uint32_t made_in_step; /* the step that made the first difference: of a parameter or memory, which are compared when
                              a step begins, the one before; 0: none had */
    bool is_at_beginning;  /* it is compared when a step begins */
    bool is_of_change;     /* the first difference is relative to what the step has changed there */
    double at_first;       /* the first difference, of the worst rank */
    double limit;          /* up to which that would have been equal */
    int first_rank;
    unsigned moment;                   /* of this first difference: items_moment() */
    int rank_count;                    /* ranks on which it differs then */
    uint64_t block_first, block_count; /* elements, if a part of it is meant; block_count 0: all of it */
    bool unbounded; /* it has infinities or NaNs that one rank does not have, or the other way round */
    bool endless;   /* it is unbounded, and one rank has others */
    bool is_own; /* unannotated memory of each rank's own update, where ranks average parameters: it does not count */
    bool is_scratch;  /* unannotated memory that holds nothing from step to step: it does not count */
    bool is_averaged; /* DDP_STEP_PARAMETERS averages it */
    bool ignored;     /* a mean that does not repeat on one rank: it does not count */
    bool unweighted;  /* a mean over ranks whose shares are unequal: it does not count either */
    bool unclear;     /* it is equal only by a tolerance that hides mistakes, or its change is no more than rounding */
    double hidden;    /* the largest difference that is equal only by such a tolerance; 0: none */
    bool moved;       /* some step has changed it, on one rank */
    uint32_t decided_step; /* in which one rank makes the same difference from a start nearby: a decision near zero,
                              which does not count; 0: none */
    double decided;        /* the difference in `decided_step` */
    bool compensated;      /* all of it is one factor, which the update undoes: it does not count */
    double factor; /* what DDP_REDUCE finds is always so many times one rank's: it does not count; 0: it is not */
};

/* Where the ranks differ from each other, before anything differs from one process. */
struct facts_apart {
    const struct check_tensor *tensor; /* NULL: they do not */
    const struct check_item *item;     /* the same tensor; NULL: it was compared with no reference */
    uint32_t step;                     /* that made the difference */
    int rank;                          /* that differs from rank 0 */
    bool is_start;                     /* before the first step */
    bool may_be_noise;                 /* the runs so far are too few to tell: one more run of the ranks would */
};

/* The first tensor that differs from one process; of several, the worst. All is 0 or false without one. */
struct facts_first {
    const struct check_item *item;      /* NULL: none */
    bool is_of_start;                   /* it differs when the first step begins */
    bool is_right_on_rank_0;            /* it differs when the first step begins, on other ranks than rank 0 alone */
    bool is_gradient, is_of_first_step; /* a gradient; one of the first step */
    bool is_result;                     /* a gradient, a buffer or a mean: no update has made it */
    bool is_unsteady;                   /* it differs by another amount in a second run of the ranks */
    size_t differing, all;              /* tensors of its role: those that first differ at that moment, and all */
    bool is_few;                        /* tensors like it are equal, all or nearly all */
    uint64_t uneven_items;              /* of its step, which the ranks do not divide, and do not weigh; 0: none */
    double factor_of_all;    /* every gradient of the first step is so many times one rank's; 0: they are not */
    double factor_of_some;   /* the gradients that differ are, and others are equal: N or 1 / N; 0: they are not */
    double factor_of_update; /* what the first update has changed is so many times one rank's, of all parameters; 0: it
                                is not */
    double factor_of_change; /* what the update has changed is so many times one rank's; 0: it is not */
    double factor_of_others; /* of the other parameters that differ at that moment and have such a factor: N or 1 / N;
                                0: they have none, or different ones */
    bool is_checked_before;  /* the gradients of all steps up to it were compared */
};

/* The first step in which only the ranks update parameters, or only one process; and after how many DDP_STEPs since the
 * last update that all have made. */
struct facts_pace {
    uint32_t step;                   /* 0: there is none */
    unsigned of_ranks, of_one;       /* DDP_STEPs for this update; the fewer are those of who updates in `step` */
    const struct check_tensor *call; /* file and line of the first DDP_STEP; NULL: not known */
};

/* What calls of DDP_REDUCE find. */
struct facts_reduced {
    bool is_any;                       /* some call was compared */
    bool is_repeated;                  /* two runs of one process have the same result of some call */
    bool depends;                      /* results depend on those before */
    const struct check_item *first;    /* the first that differs, of all tensors; NULL: none */
    size_t differing;                  /* tensors that differ */
    const struct check_item *multiple; /* a result that is a multiple of one process's; NULL: none */
    uint64_t uneven_items;             /* that the ranks do not divide; 0: none */
};

/* What the host of one rank copies to the device, and has computed for itself. */
struct facts_carried {
    uint64_t bytes; /* 0: there is no such copy */
    uint32_t step;
    int rank;
    bool is_trained;    /* they depend on the parameters; false: that is not known */
    const char *frames; /* of the call, as a CHECK_ROW_SITE has them; NULL: not known */
    char
        place[300]; /* the call in the source: filled in by the caller, which reads debug information; "?": not known */
};

struct check_facts {
    /* ---- the check ---- */
    int ranks;
    unsigned steps;             /* that were compared */
    double tolerance, bearable; /* what counts as equal, and above which nothing does */
    bool is_forced;             /* every step began from the reference */
    bool in_rounds;             /* no DDP_STEP came: steps are rounds of DDP_REDUCE calls */
    bool takes_turns;           /* DDP_TURN_BEGIN has come */
    bool by_plan;               /* --plan */
    bool is_sum;                /* --reduce sum */
    bool is_compressed;         /* --compress */
    bool has_graphs;            /* DDP_STEP is captured in a CUDA graph */

    /* ---- the tensors ---- */
    struct check_item *items; /* [item_count]: those that differ before the others, and the worst first */
    size_t item_count;
    double largest, largest_floor;    /* the largest difference of what counts, and its floor */
    const struct check_item *unclear; /* the first tensor that is equal only by a tolerance that hides mistakes, or
                                         whose change is no more than rounding; NULL: none */

    /* ---- one process ---- */
    double unrepeated;  /* how far it is from itself: a relative difference */
    bool is_unrepeated; /* it is too far from itself */
    bool is_compared;   /* something that is trained was compared, of each rank */
    bool is_unmoved;    /* no step has changed a parameter */
    struct facts_pace pace;
    uint64_t trained_elements;          /* of parameters that move, and that DDP_STEP averages the gradients of; 0: they
                                           have several types; */
    uint64_t gradient_elements;         /* and of all gradients */
    const struct check_tensor *endless; /* a parameter that is infinite or NaN, before anything differs; NULL: none */
    uint32_t endless_step;              /* after which it is */
    const struct check_tensor *wide;    /* a gradient of float64, where no parameter has this type; NULL: none */
    unsigned readings;                  /* of enum check_reading: what the program has read */
    const char *reading_places;         /* "`time` (train.cu:12)"; empty: it has read none */

    /* ---- how the runs ended ---- */
    const char *refuted, *unproved;   /* as in struct check_evidence; NULL: it is empty */
    const char *stopped;              /* why ddprun ended the run of the ranks; NULL: it did not */
    unsigned common_end;              /* all ranks have ended by themselves after this step, which is not one process's
                                         last; 0: not so */
    bool is_stopped_first;            /* ... and nothing has differed a whole step before */
    const char *alarm;                /* what would have ended it; NULL: nothing */
    const struct check_tensor *after; /* a parameter that is updated again and again after the last DDP_STEP, in one
                                         process, too; NULL: none */
    int continues;                    /* a rank that continues after the last step of one process; -1: none */

    /* ---- the ranks ---- */
    struct facts_apart apart;
    bool have_one_batch;      /* all ranks compute the same */
    bool take_whole_batches;  /* each rank takes as much as one rank alone */
    bool parameters_equal;    /* there are parameters, and none differs at any time */
    bool has_equal_parameter; /* one has moved, and did not differ when another first did */
    bool all_parameters_move; /* of parameters that have moved, each first differs at the moment of `first` */
    bool are_alike_at_first;  /* the ranks have the same bits when `first` differs */

    /* ---- differences ---- */
    struct facts_first first;
    const struct check_item *memory; /* unannotated memory that differs, and explains what is annotated; NULL: none */
    bool is_memory_different;        /* some unannotated memory differs */
    double
        undone; /* all gradients of the first step are so many times one process's, which its update removes; 0: not so
                 */
    bool is_right_without_overlap; /* a run without overlap, in which nothing differs */
    struct facts_reduced reduced;
    struct facts_carried carried;

    /* ---- runs that were made ---- */
    bool has_plain, has_repeat, has_scaled, has_probe, has_far;
    unsigned nudged_runs;
    uint64_t overlapped_steps; /* of the run that is judged */
};

#endif

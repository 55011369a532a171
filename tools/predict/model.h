/*
 * model.h - what the parts of the model share: what model.c has found in the trace. predict.h is for others.
 */
#ifndef DDPRUN_TOOLS_PREDICT_MODEL_H
#define DDPRUN_TOOLS_PREDICT_MODEL_H

#include "bucketing/cost.h"
#include "bucketing/plan.h"
#include "tools/predict/predict.h"
#include "tools/trace/facts.h"

enum { MODEL_SAMPLES_AT_MOST = COST_SEGMENTS_AT_MOST - 1 };

struct model {
    unsigned ranks;
    size_t rank_count;       /* that have a trace */
    char host[65];           /* of the first of them */
    int straggler;           /* the rank; -1: none */
    char straggler_host[65]; /* of it, and how much later than the next rank it was done, in the mean */
    double straggler_us;
    char waiting[WAITING_TEXT_BYTES]; /* the sentence about it, and what ranks waited for each other: */
    double waiting_us;
    char noise[200]; /* the sentence about the gradient noise scale; "": there is none */
    bool unbound;    /* ranks are bound to no cores, and there is one for each */

    double low, high; /* stretches of the run had steps so many times as long as the mean */
    double own_us;    /* a rank's own work in the mean step, without a straggler, */
    double slowed_us; /* of it what collectives beside it have cost backward, by the last trial; 0: not known; */
    double alone_us;  /* and the rest: a step without averaging */
    double measured_step_us, exposed_us; /* as users see them */
    double items;                        /* that DDP_SHARD shares out in a step; 0: not known */
    uint64_t batch;                      /* that one DDP_SHARD shares out; 0: not known */
    bool overlapped;                     /* steps overlap, by known ready times */
    bool narrow;                         /* what is sent is not float32 throughout, */
    unsigned kept;                       /* and so many thousandths of the bytes of gradients */
    bool fixed;                          /* --bucket-mb was given, and steps overlap */

    struct plan_gradient *gradients;
    int64_t *ready_ns; /* [gradient_count]: since the step's begin */
    size_t *order;
    size_t gradient_count;
    uint64_t bytes;   /* of gradients */
    bool lacks_times; /* steps overlap, and the engine has not measured when gradients are ready */

    struct cost_sample samples[MODEL_SAMPLES_AT_MOST]; /* of an all-reduce of these ranks */
    size_t sample_count;                               /* 0: not known */
};

/* The cost of an all-reduce on `ranks` ranks: over `link`, or (NULL) as measured. False: not known. */
bool model_cost(const struct model *model, unsigned ranks, const struct link *link, struct cost *cost) MUST_USE;

#endif

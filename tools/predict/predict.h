/*
 * predict.h - a model of a program's step, made from its trace: what would a step take on other numbers of ranks, and
 * what does one lose to?
 *
 * The model is in docs/insight.md. Times are microseconds, a "step" is an interval between two DDP_STEP of the gradient
 * group with the most bytes. No threads, no files.
 */
#ifndef DDPRUN_TOOLS_PREDICT_PREDICT_H
#define DDPRUN_TOOLS_PREDICT_PREDICT_H

#include "tools/trace/facts.h"

/* A ring's hop: what a GPU sends to the next one, each direction by itself. Both finite, bandwidth above 0. */
struct link {
    double bytes_per_us; /* = MB/s, of 10^6 bytes */
    double latency_us;
};

/* What a trace shows of a step: ready times, the cost of an all-reduce, checks, waiting for ranks. */
struct model;

/* The caller owns the model. NULL: `why`, of `size` bytes, says what the trace lacks. */
struct model *model_of_facts(const struct facts *facts, char *why, size_t size);
void model_free(struct model *model);

/* The same of a trace whose figures the caller does not need. */
struct model *model_of_trace(const struct trace *trace, char *why, size_t size);

struct prediction {
    unsigned ranks;
    double step_us, exposed_us;
    double low_us, high_us; /* where step_us is to be expected, by how the run's own steps vary */
    bool is_measured;       /* it is the trace's own step */
};

/* Its steps vary by more than a factor of 2: nothing is predicted by them. */
bool model_is_noisy(const struct model *model);

/*
 * A step on `ranks` ranks whose buckets are planned for them. `link`: between all of them; NULL: as the trace shows it.
 * Then the trace's own number of ranks is as it was measured, and others are off by as much as these are.
 * False, if the trace does not show what an all-reduce costs (one rank sends nothing), or times are beyond all bounds.
 */
bool model_predict(const struct model *model, unsigned ranks, const struct link *link,
                   struct prediction *prediction) MUST_USE;

/* What a step loses. */
struct loss {
    char what[200], advice[200]; /* advice: the option or change that saves gain_us */
    double gain_us;              /* of a step */
    bool unmeasured;             /* what it saves is not known: gain_us orders losses, and is not printed */
};

/* The losses whose advice saves at least a hundredth of a step, greatest gain first, at most `room`; returns how many.
 */
size_t model_losses(const struct model *model, struct loss *losses, size_t room);

#endif

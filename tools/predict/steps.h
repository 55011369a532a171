/*
 * steps.h - the steps of a trace that a model is made of: those of the last job, of the group with the most bytes, of
 * the last of its plans of buckets that has enough.
 */
#ifndef DDPRUN_TOOLS_PREDICT_STEPS_H
#define DDPRUN_TOOLS_PREDICT_STEPS_H

#include "tools/trace/read.h"

/* Of a plan: all is checked in three of its first steps, and the next one waits for that. They do not count. */
enum { STEPS_FIRST = 4 };
/* A plan with fewer says little of its steps. */
enum { STEPS_ENOUGH = 8 };

/* Points into the trace. */
struct looked_at {
    bool overlapped;               /* its steps do */
    const struct trace_run **runs; /* one of each rank, of the last job */
    size_t run_count;
    int group;
    const struct trace_plan *plan;
    const struct trace_step **steps; /* [step_count * run_count], oldest first */
    size_t step_count;
};

/* NULL; or what is missing, for the user. steps_free() in any case. */
const char *steps_look(const struct trace *trace, struct looked_at *at) __attribute__((warn_unused_result));
void steps_free(struct looked_at *at);

#endif

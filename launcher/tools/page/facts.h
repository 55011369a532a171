/*
 * facts.h - what a page says of a run, found in its trace: the steps of all ranks side by side, and who waited.
 *
 * Of the last job in the trace, and of the gradient group with most bytes. How long a rank's stream waits at the end of
 * a step has two parts, as in watch/pace.h: what the rank that came last waited is the network's, and what the others
 * waited longer they waited for that rank. Times are microseconds. One thread.
 */
#ifndef DDPRUN_LAUNCHER_TOOLS_PAGE_FACTS_H
#define DDPRUN_LAUNCHER_TOOLS_PAGE_FACTS_H

#include "launcher/tools/trace/clocks.h"
#include "launcher/tools/trace/read.h"

/* One rank; medians over its steps, NAN where nothing is known. */
struct rank_facts {
    const struct trace_run *run;
    const struct run_clock *clock;
    const struct trace_step **steps; /* [step_count]: of the group, with times, by number */
    size_t step_count;
    double step_us, before_us, backward_us, network_us, ranks_us;
    size_t last_count; /* in so many steps it was the last */
    double kept_us;    /* a step: how much earlier all others would have been done without it; mean of all steps */
};

/* One step that all ranks have. */
struct step_facts {
    uint64_t number;
    double least_us, middle_us, most_us; /* its duration, over the ranks; NAN: not known */
    double network_us, ranks_us;         /* what the last rank waited, and the mean of all on top of it */
    int last;                            /* index of the rank that came last */
    double gap_us;                       /* before the last but one */
    bool overlapped, control;
};

struct facts {
    const struct trace *trace;
    int world, group;
    size_t group_steps[TRACE_GROUPS]; /* of the lowest rank, with times */
    size_t group_count;               /* of groups that have some */
    struct rank_facts *ranks;
    size_t rank_count;
    struct step_facts *steps; /* by number */
    size_t step_count;
    size_t graph_steps; /* of one rank: steps in CUDA graphs, which have no times */
    double step_us;     /* medians over all steps */
    double network_us, ranks_us, bound_us, predicted_us;
    int straggler; /* index of the rank that was last in three of four steps, by a tenth of the step; -1: none */
    const struct trace_plan *plan;          /* of the group, the last one; NULL: none */
    const struct trace_overlap *overlap;    /* of the group, where overlap was switched last; NULL: nowhere */
    const struct trace_run *first;          /* the run of the lowest rank */
    struct json_object *summary, *settings; /* of the launcher's line; NULL: the trace has none */
    const char *program;                    /* "": not known */
};

/* `clocks`: of the trace. Both stay until facts_free(). */
void facts_find(const struct trace *trace, const struct run_clock *clocks, struct facts *facts);
void facts_free(struct facts *facts);

/* A member of the summary, as a number; NAN: not known. As a text: "". */
double facts_number(const struct facts *facts, const char *name);
const char *facts_string(const struct facts *facts, const char *name);

/* The rank's step of that number; NULL: it has none. */
const struct trace_step *facts_step_of(const struct rank_facts *rank, uint64_t number);

/* Duration of a step, from the end of the one before; NAN: not known. */
double facts_duration(const struct trace_step *step);

#endif

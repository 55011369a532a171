/*
 * step_table.h - what a page says of a run, found in its trace: the steps of all ranks side by side, and who
 * waited. One set of figures, of one window of steps.
 *
 * Of the last job in the trace, and of the gradient group with most bytes. Figures are means over the steps after
 * start-up that all ranks have, from the first to the last that the job's summary names; control steps of trials do not
 * count. What is exposed and what is waiting, launcher/common/waiting.h says; what the launcher has in its summary is
 * taken from there. Times are microseconds. One thread.
 */
#ifndef DDPRUN_TOOLS_TRACE_STEP_TABLE_H
#define DDPRUN_TOOLS_TRACE_STEP_TABLE_H

#include "tools/trace/read.h"

/* One rank; of the steps that count, means. NAN where nothing is known. */
struct rank_facts {
    const struct trace_run *run;
    const struct trace_step **steps; /* [step_count]: of the group, with times, by number */
    size_t step_count;
    double before_us, backward_us, step_us; /* its own */
    double host_us;                         /* its host, from the return of one DDP_STEP to the call of the next */
    struct trace_before host, device;       /* before backward, of steps that launch as much as others; loader: NAN */
    double kept_us;                         /* a step: how much earlier all others would have been done without it */
};

/* One step that all ranks have. */
struct step_facts {
    uint64_t number;
    double least_us, middle_us, most_us; /* its duration, over the ranks; NAN: not known */
    struct last_rank last;               /* by indices of ranks */
    bool overlapped, control;
    bool counts; /* it is in the window */
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
    size_t graph_steps;                   /* of one rank: steps in CUDA graphs, which have no times */
    uint64_t first_counted, last_counted; /* the window, */
    size_t counted;                       /* how many steps in it count, or were measured by the launcher */
    double steps_per_s;                   /* of all groups */
    double step_us;                       /* all that follows is in it, and own_us is the rest: */
    double own_us, exposed_us, waiting_us;
    double slowed_us;                       /* of own_us, by the last trial; NAN: there was none */
    struct waiting waited;                  /* the same, by indices of ranks */
    struct rank_waits *waits;               /* [rank_count]: for other ranks, added up over `counted` steps */
    const struct trace_plan *plan;          /* of the group, the last one; NULL: none */
    const struct trace_overlap *overlap;    /* of the group, where overlap was switched last; NULL: nowhere */
    const struct trace_run *first;          /* the run of the lowest rank */
    struct json_object *summary, *settings; /* of the launcher's line; NULL: the trace has none */
    struct json_object *noise;              /* the summary's gradient noise scale; NULL: not said */
    const char *program;                    /* "": not known */
    struct json_object *arguments;          /* the program's, with its own name: texts; NULL: not known */
};

/* The trace stays until facts_free(). */
void facts_find(const struct trace *trace, struct facts *facts);
void facts_free(struct facts *facts);

/* What a step takes without averaging, and a straggler; NAN: not known. `slowed_us` is that of the rank with the most
 * work in each step, for which the others wait: so waiting counts once, and of slowed only what exceeds it. */
double facts_alone(const struct facts *facts);

/* What the rank waited for others, in the mean; NAN: not known. */
double facts_waiting(const struct facts *facts, size_t rank);

/* The duration that so many hundredths of the steps did not exceed, of all steps but control steps (nearest rank); 0:
 * the least. NAN: there are none. */
double facts_percentile(const struct facts *facts, unsigned hundredths);

/* The batches of all ranks that took turns (DDP_TURN_BEGIN). NAN: none did, or there is no summary. */
double facts_turns(const struct facts *facts);

/* The rank's step of that number; NULL: it has none. */
const struct trace_step *facts_step_of(const struct rank_facts *rank, uint64_t number);

/* before.c: whether so many launches, in so many steps that usually have `usual`, are those of an evaluation, too: a
 * forward pass is about a third of a step's. False where a number is not known. */
bool facts_is_evaluation(double launches, double usual, double steps);

/* before.c: rank->host and rank->device. Ranks, steps and what counts are known. */
void facts_find_before(const struct facts *facts, struct rank_facts *rank);

/* What the rank's host took from its return from the DDP_STEP before to the call of this one; NAN: not known. */
double facts_host_us(const struct rank_facts *rank, uint64_t number);

#endif

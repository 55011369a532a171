/*
 * read.h - a trace, as ranks have written it: DIR/rank-N.jsonl, whose format is in docs/trace.md.
 *
 * What is whole is taken; what is not is named in `remarks`. Files come from other hosts and other times: nothing in
 * them is believed before it was looked at.
 */
#ifndef DDPRUN_TOOLS_TRACE_READ_H
#define DDPRUN_TOOLS_TRACE_READ_H

#include "base/message.h"
#include "launcher/common/error.h"
#include "launcher/common/waiting.h"
#include "tools/common/each.h"

#include <stdio.h>

enum { TRACE_VERSION = 1, TRACE_MOST_RANKS = 1 << 16, TRACE_GROUPS = 64 };

struct json_object;

struct trace_bucket {
    unsigned number;
    bool early;
    double ready_us, begin_us, end_us; /* to the step's boundary; NAN: not known */
    uint64_t bytes;
    char path[16], type[16];
};

/* What comes before backward: four parts, in microseconds; NAN: not known. */
struct trace_before {
    double other_us;   /* the update of the step before, waits, and what else is not named here */
    double loader_us;  /* the host, outside of calls of CUDA and ddprun, before the batch is copied */
    double copies_us;  /* of the batch to the device */
    double forward_us; /* after the copies */
};

/* What the program has done, so far; NAN: not known. */
struct trace_totals {
    double launches; /* of kernels and graphs */
    double saved_ns; /* in checkpoints */
};

struct trace_step {
    uint64_t number;
    int group;
    bool overlapped;
    bool in_graph; /* without times but entered_ns */
    bool control;  /* of a trial: it overlaps where others do not, or the other way round */
    int64_t boundary_ns, error_ns, entered_ns, left_ns;
    double begin_us, backward_us, released_us; /* to the boundary; NAN: not known */
    double copies_begin_us, copies_end_us;     /* of the batch, on the device, to the boundary; NAN: not known */
    struct trace_before host;                  /* from the return of the DDP_STEP before */
    double launches;                           /* of kernels and graphs, since then; NAN: not known */
    struct trace_totals totals;                /* at the boundary */
    double predicted_us, bound_us;             /* of what is exposed: the plan's, and any plan's; NAN: not known */
    struct trace_bucket *buckets;
    size_t bucket_count;
};

struct trace_exchange {
    uint64_t number;
    int64_t begin_ns, end_ns;
    char about[64];
};

struct trace_mean {
    char name[32], place[64];
    uint64_t after_step;
    double value;
};

struct trace_tensor {
    char name[256], place[300], type[16];
    uint64_t elements, bytes;
};

/* The buckets in force from a step on: which tensors each of them has. */
struct trace_plan {
    int group;
    uint64_t after_step;
    size_t **members; /* [bucket_count][member_counts[k]]: numbers of tensors of the group */
    size_t *member_counts;
    size_t bucket_count;
};

/* What a trial of steps with and without overlap found; medians of whole steps, NAN: not known. */
struct trace_trial {
    int group;
    uint64_t after_step;
    double slowed_us, overlapped_us, apart_us; /* apart: without overlap */
};

/* From the next step on steps overlap, or do not. */
struct trace_overlap {
    int group;
    uint64_t after_step;
    bool overlaps;
};

/* What an all-reduce of so many bytes takes on an idle device. */
struct trace_cost {
    uint64_t bytes;
    int64_t ns;
};

/* The first of its key. */
struct trace_warning {
    uint64_t after_step;
    int64_t at_ns;
    char key[WARNING_KEY_BYTES], text[WARNING_TEXT_BYTES];
};

/* What a run has lists of, with their lengths: `step_count` and so on. Costs are of rising sizes. */
#define TRACE_LISTS(X)     \
    X(step, steps)         \
    X(exchange, exchanges) \
    X(mean, means)         \
    X(warning, warnings) X(plan, plans) X(trial, trials) X(overlap, overlaps) X(cost, costs)
#define TRACE_LIST(item, items) \
    struct trace_##item *items; \
    size_t item##_count;

/* One program of one rank. */
struct trace_run {
    int64_t job; /* the same on all ranks */
    int rank, world;
    char host[65];
    int64_t at_ns, unix_ns;     /* the rank's clock, and the time of day */
    struct trace_totals totals; /* at the end */
    double worked_ns;           /* when the last call was over, on the rank's clock; NAN: not known */
    bool ended, cut;            /* its last line is there; or a line is not whole, which a remark names */
    uint64_t bucket_bytes;      /* of --bucket-mb; 0: not given, or not known */
    struct json_object *told; /* what the launcher has added at the end (docs/trace.md, "summary"); NULL: it has not */
    struct json_object *summary; /* in it; NULL: the same */
    TRACE_LISTS(TRACE_LIST)
    struct trace_tensor *tensors[TRACE_GROUPS];
    size_t tensor_counts[TRACE_GROUPS];
};

struct trace {
    struct trace_run *runs; /* in the order of ranks, those of one rank in their order of time */
    size_t run_count;
    int64_t job;    /* the last one, */
    int world;      /* and its ranks */
    char **remarks; /* what is missing or not whole, for the user */
    size_t remark_count;
};

/* Reads all of it; trace_free() releases it, in any case. Error: there is no trace, or not one that can be read. */
bool trace_read(const char *folder, struct trace *trace, struct error *error) MUST_USE;
void trace_free(struct trace *trace);

/* The last `what` of the group: a plan, a trial, or an overlap, which is where it was switched; NULL: there is none. */
#define TRACE_LAST(run, what, of_group)                                   \
    __extension__({                                                       \
        const struct trace_##what *what##_last = NULL;                    \
        FOR_EACH(what, (run)->what##s, (run)->what##_count)               \
            what##_last = what->group == (of_group) ? what : what##_last; \
        what##_last;                                                      \
    })

/* Takes the lines of one rank's file into `trace`; for trace_read() and the fuzzer. `name` is what remarks call it. */
void trace_take_file(struct trace *trace, int rank, const char *name, const char *text, size_t bytes);

/* A member of an object, such as the summary, as a number; NAN: not known. As a text: "". */
double facts_number(struct json_object *object, const char *name);
const char *facts_string(struct json_object *object, const char *name);

/*
 * ---- clocks.c: the clocks of all ranks on one: that of the lowest rank ----
 *
 * In an exchange each rank gets what all have sent. So rank r's end of it is never before rank 0's begin, nor rank 0's
 * end before rank r's begin; each exchange bounds the difference of two clocks from both sides. The tightest bounds of
 * a minute are taken together, for clocks drift: their middle is the difference, half their distance the error. This is
 * what F. Cristian's algorithm (Probabilistic clock synchronization, 1989) does with one message and its answer.
 */

/* What is to be taken from a rank's clock, at some times of it. */
struct clock_difference {
    int64_t at_ns, difference_ns, error_ns;
};

/* Of one run. */
struct run_clock {
    struct clock_difference *points; /* [count], by time; none: the clock stays as it is, and is not compared */
    size_t count;
    int64_t error_ns; /* the greatest; INT64_MAX: not known */
};

/* One for each run of the trace; malloc'ed. clocks_free() releases them. */
struct run_clock *clocks_align(const struct trace *trace);
void clocks_free(struct run_clock *clocks, const struct trace *trace);

/* A time of the rank's clock on that of the lowest rank. */
int64_t clock_common(const struct run_clock *clock, int64_t ns);

/* ---- waits.c: what a step waited for: the network, and the rank that came last (launcher/common/waiting.h) ---- */
/* The step in another run, or in the same: that of its number and group; NULL: the run does not have it. `place`: its
 * number in the list that it is taken from. */
const struct trace_step *trace_same_step(const struct trace_run *run, const struct trace_step *wanted, size_t place);

/* Of a step of one run of the trace, by the numbers of ranks; none if a rank's part of that step is not there, or has
 * no times. */
struct last_rank waits_of(const struct trace *trace, const struct trace_run *run, const struct trace_step *step);

/* ---- chrome.c ---- */
/* A trace as Chrome's trace events (Google, "Trace Event Format"), which Perfetto and chrome://tracing show: a
 * process for each rank, with tracks for its trainer, its collectives and its host. Slices of one track never overlap:
 * where clocks differ by less than is known of them, one begins where the one before it has ended. */
void chrome_write(FILE *out, const struct trace *trace, const struct run_clock *clocks);

#endif

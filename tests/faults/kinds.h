/*
 * kinds.h - the kinds of faults: what is done to a run, at which moment, and what must come of it.
 *
 * A row of the table is a kind. All that is random about a run follows from its seed and number, so that both repeat
 * it.
 */
#ifndef DDPRUN_TESTS_FAULTS_KINDS_H
#define DDPRUN_TESTS_FAULTS_KINDS_H

#include "tests/faults/job.h"
#include "tests/faults/place.h"

#include <stdint.h>

enum { KINDS_STEPS = 100, KINDS_POINTS = 7 + 3 * KINDS_STEPS + 1, KINDS_TIMEOUT_S = 8, KINDS_WHY_BYTES = 2048 };

/* How long the parts of a run take on this machine now: from runs without a fault. */
struct pace {
    int64_t start_ns; /* until the first step */
    int64_t step_ns;
    int64_t end_ns; /* from the last step to the end */
};

/* When it happens: a step of the rank that it happens to, and a time after that. Step 0: the start of the run. */
struct moment {
    uint32_t step;
    int64_t delay_ns;
};

struct kind;

struct run {
    const struct kind *kind;
    unsigned number;
    uint64_t random; /* state of run_random() */
    int ranks, target;
    struct moment moment;
    unsigned point;   /* of the trainer's own fault, up to KINDS_POINTS */
    int64_t fault_ns; /* CLOCK_MONOTONIC, when it happened; 0: it did not */
    int64_t gone_ns;  /* when no process of the run was left */
};

/* Waits for the run's moment, does it, and notes when (run->fault_ns), if there still was anything to do it to. */
typedef void inject_function(struct run *run, struct job *job);
inject_function inject_signal_rank, inject_signal_launcher, inject_kill_connecting, inject_stop_rank,
    inject_kill_daemon, inject_cut, inject_limit_memory, inject_leave_output, inject_kill_behind_full_pipe,
    inject_pause_reading;

/* After the end: says in `why` what is wrong, or leaves it empty. Returns whether the fault changed anything. */
typedef bool judge_function(const struct run *run, const struct job *job, char why[KINDS_WHY_BYTES]);
judge_function judge_signal, judge_stop, judge_leave, judge_exit, judge_asked, judge_launcher_killed,
    judge_supervisor_killed, judge_torn, judge_memory, judge_reader_left, judge_none;

struct kind {
    const char *name;
    const char *about;     /* for people */
    unsigned where;        /* bits of place.h */
    const char *options;   /* for ddprun; words with blanks between, or NULL */
    const char *arguments; /* for the trainer, with one %d each for the rank and the point; or NULL */
    const char *link;      /* value of SOFTGPU_LINK, or NULL */
    bool wrapper;          /* a shell stands between ddprun and the trainer */
    bool closed_output, small_pipe;
    bool sweeps;             /* what ddprun left is cleared away by the next one */
    int signal;              /* that is sent, or that ends what it hits */
    enum job_process whom;   /* of the target rank, where its processes get the signal */
    int limit_s;             /* from the fault to the end, on one node that has nothing else to do; 0: the usual one */
    inject_function *inject; /* NULL: the trainer does it */
    judge_function *judge;
};

extern const struct kind kinds[];
extern const int kind_count;

const struct kind *kind_named(const char *name);

/* A run without a fault. */
extern const struct kind kind_none;

/* A number from 0 to below `below`. */
uint64_t run_random(struct run *run, uint64_t below);

/* A random part of a time. */
int64_t run_part(struct run *run, int64_t ns);

/* The promised time from the fault to the end, in seconds. */
int run_limit_s(const struct run *run, const struct place *place);

/* Chooses everything about run `number`. `kind`: NULL for any that is for this place. */
void run_choose(struct run *run, uint64_t seed, unsigned number, const struct kind *kind, const struct place *place,
                const struct pace *pace);

#endif

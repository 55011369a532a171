/*
 * supervisor.h - what the files of the supervisor share: its state, and what each file does of its work (job.h).
 *
 *     supervisor.c          opens it; looks at the ranks and judges; follows supervisor 0; waits
 *     supervisor_signals.c  signals to ddprun: the end, those of the ranks, a stop
 *     supervisor_report.c   what is printed and written at the end
 *     supervisor_ending.c   begins the end, gives ranks the time of --grace, kills
 *
 * A file calls those below it. One thread; no other file of the launcher includes this.
 */
#ifndef DDPRUN_LAUNCHER_SUPERVISOR_H
#define DDPRUN_LAUNCHER_SUPERVISOR_H

#include "launcher/job.h"

#include "launcher/cluster/supervisor_net.h"
#include "launcher/output/output.h"
#include "launcher/report/metrics.h"
#include "launcher/report/progress.h"
#include "launcher/report/report.h"
#include "launcher/report/summary.h"
#include "launcher/watch/grace.h"
#include "launcher/watch/hang.h"
#include "launcher/watch/local_ranks.h"
#include "launcher/watch/processes.h"
#include "launcher/watch/xid.h"

#define MS       1000000ull
#define GRACE_NS (PROCESSES_GRACE_MS * MS) /* after a failure */
/* For what ranks have left running, after a signal; and for a reader of their output. */
#define LEFT_GRACE_NS (5000 * MS)

struct supervisor {
    struct job *job;
    const struct error *error; /* why it could not be started, and ends at once; or NULL */
    struct local_ranks local;
    struct supervisor_net net;
    struct rank_view *ranks; /* [view_count]: of the whole job, or of this supervisor's rank */
    int view_count;
    struct rank_view *before; /* scratch of look() */
    int interval_ms;
    uint64_t looked_ns, paced_ns;
    struct judge *judge;
    struct preload_watch *watch;
    struct xid_watch *xids; /* NULL: none are seen */
    struct output_stall stall;
    struct progress *progress; /* NULL: none is shown */
    struct metrics *metrics;   /* NULL: none are written */
    struct side_file summary, trace, page;
    bool ending, hurried;       /* hurried: a signal asked for the end, so no reader is waited for long */
    bool interrupted;           /* that is why it ends */
    enum job_final final;       /* whether the job may begin again */
    int passed_on;              /* the last signal that was passed on to the ranks, such as SIGUSR1; 0: none was */
    unsigned *left_out;         /* [started]: of each rank, bit N - 1: signal N was not sent, and that was said */
    bool has_grace;             /* ranks were asked to stop, and have the time of --grace */
    struct grace grace;         /* with has_grace */
    bool at_once;               /* the user has asked for the end at once */
    uint64_t signalled_ns;      /* when the first signal that asks for the end came here; 0: none has */
    uint64_t rank_signalled_ns; /* when a rank was first seen to have ended by such a signal; 0: none has */
    uint64_t asked_views_ns;
    uint64_t begin_ns, end_ns, kill_at_ns;
    uint64_t left_until_ns; /* when what is left of ranks that have ended is killed; 0: not yet known */
    bool failed;            /* `reason` holds why */
    uint64_t wanted; /* the last step whose buckets a rank has asked for, as the ranks were told (tell_wanted()) */
    bool told;       /* the user knows it already */
    struct report details; /* below the reason, if it is anything */
    char **crashes;        /* [view_count]: stacks of ranks here that have crashed; NULL: it has not */
    struct report_file report_file;
    struct error reason; /* .exit_code is the job's in any case */
};

/* ---- supervisor_ending.c ---- */
/* The time of --grace. */
uint64_t supervisor_grace_ns(const struct supervisor *s);

/* Of all ranks: supervisor 0 also tells the others. `number`: the signal for ranks, 0: none; `asked`: the one that has
 * asked them to stop, 0: none has. After `time_ns` they are killed. */
void supervisor_begin_end(struct supervisor *s, int number, int asked, uint64_t time_ns);

/* What is known of the culprit, before it is ended; of a rank that is not here, its supervisor is asked. `suspect`: as
 * below. report_free() releases it. */
void supervisor_take_report(struct supervisor *s, const struct error *error, int suspect, struct report *report);

/* The job ends for s->reason. `suspect`: a rank that may be why, besides the one of whom the reason speaks; -1: none.
 */
void supervisor_fail(struct supervisor *s, int suspect);

/* While ranks have the time of --grace: ends those that only wait for one that has left, and names who is late. Of
 * supervisor 0, or the only one. */
void supervisor_use_grace(struct supervisor *s);

/* Names each rank here that was killed because its time was over, once. */
void supervisor_say_late(struct supervisor *s);

/* Returns whether no process is left, here and elsewhere. Kills those whose time is over. */
bool supervisor_step_end(struct supervisor *s);

/* ---- supervisor_signals.c ---- */
/* A signal, here or at another supervisor, asks for the end of a job that does not end yet. */
void supervisor_interrupt(struct supervisor *s, int number);

/* Takes all that have come. Returns whether one asks for the end. */
bool supervisor_take_signals(struct supervisor *s);

/* ---- supervisor_report.c ---- */
/* Waits for the readers of the ranks' output, prints reason, report and closing lines, and writes the files. */
void supervisor_finish(struct supervisor *s);

#endif

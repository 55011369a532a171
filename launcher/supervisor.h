/*
 * supervisor.h - stays with a running job until its end: waits, watches, ends all ranks when one fails, reports.
 *
 * One thread, woken by signals, PMIx, other supervisors and a clock. Under a cluster's launcher each supervisor has one
 * rank; supervisor 0 judges all, and the others do what it says (supervisor_net.h). It waits for nothing but that; what
 * could block (the terminal, a full pipe) is done by relays in threads of their own.
 */
#ifndef DDPRUN_LAUNCHER_SUPERVISOR_H
#define DDPRUN_LAUNCHER_SUPERVISOR_H

#include "launcher/cluster/supervisor_net.h"
#include "launcher/common/signals.h"
#include "launcher/output/messages.h"
#include "launcher/output/relay.h"
#include "launcher/output/terminal_input.h"
#include "launcher/report/metrics.h"
#include "launcher/report/progress.h"
#include "launcher/report/verbose.h"
#include "launcher/start/pmix_server.h"
#include "launcher/watch/hang.h"

#include <sys/types.h>

/* A job whose ranks have been started; borrowed. */
struct running_job {
    const pid_t *pids; /* [net.rank_count]; each leads its process group */
    void *status_page;
    struct pmix_server *pmix; /* our own; NULL: none */

    struct supervisor_net_job net; /* under a cluster's launcher */

    const struct signals *signals;
    struct terminal_input *input;
    struct messages *messages;     /* closed at the end */
    struct relay *relays[2];       /* of stdout and stderr; NULL where there is one rank */
    const struct options *options; /* what output_warn_full() wants to know */
    const char *trace_dir;
    int64_t begun_unix_ns;   /* time of day before the first rank was started */
    const char *const *gpus; /* [net.rank_count] CUDA_VISIBLE_DEVICES of each, entries or all of it NULL: not set */
    bool softgpu;            /* they are devices of the stand-in */
    struct hang_limits hang_limits;
    struct verbose *verbose;   /* what -v tells; NULL: nothing */
    struct progress *progress; /* NULL: none is shown */
    struct metrics *metrics;   /* NULL: none are written */
    bool summary;              /* print the closing lines */
    const char *summary_json;  /* file for them; NULL: none */
    unsigned restarts;         /* of --max-restarts, so far */
    char **attempts;           /* how those before ended (summary.h), malloc'ed or NULL; at the end this one, too */
    const struct error *error; /* why it could not be started, and ends at once; or NULL */
};

/* Returns the job's exit code when no process of it is left and its output has been passed on. Prints the reason of a
 * failure. */
int supervisor_run(const struct running_job *job);

#endif

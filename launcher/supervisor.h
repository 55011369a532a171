/*
 * supervisor.h - stays with a running job until its end: waits, watches, ends all ranks when one fails, reports.
 *
 * One thread, woken by signals, PMIx and a clock. It waits for nothing but that; what could block (the terminal, a full
 * pipe) is done by relays in threads of their own.
 */
#ifndef DDPRUN_LAUNCHER_SUPERVISOR_H
#define DDPRUN_LAUNCHER_SUPERVISOR_H

#include "launcher/news.h"
#include "launcher/pmix_server.h"
#include "launcher/progress.h"
#include "launcher/relay.h"
#include "launcher/signals.h"
#include "launcher/terminal_input.h"

#include <sys/types.h>

/* A job whose ranks have been started; borrowed. */
struct running_job {
    int rank_count;
    const pid_t *pids; /* [rank_count]; each leads its process group */
    void *status_page;
    struct pmix_server *server;
    const struct signals *signals;
    struct terminal_input *input;
    struct relay *relays[2];   /* of stdout and stderr; NULL where there is one rank */
    const char *const *gpus;   /* [rank_count] CUDA_VISIBLE_DEVICES of each, entries or all of it NULL: not set */
    bool softgpu;              /* they are devices of the stand-in */
    struct news *news;         /* what -v tells; NULL: nothing */
    struct progress *progress; /* NULL: none is shown */
    bool summary;              /* print the closing lines */
    const char *summary_json;  /* file for them; NULL: none */
};

/* Returns the job's exit code when no process of it is left and its output has been passed on. Prints the reason of a
 * failure. */
int supervisor_run(const struct running_job *job);

#endif

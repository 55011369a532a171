/*
 * local_ranks.h - what can be seen of the ranks that this launcher started: status page, ends, PMIx.
 *
 * Only looks; verdict.h judges what was seen. Supervisor's thread only.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_LOCAL_RANKS_H
#define DDPRUN_LAUNCHER_WATCH_LOCAL_RANKS_H

#include "launcher/cluster/engine_link.h"
#include "launcher/start/pmix_server.h"
#include "launcher/watch/preload_watch.h"
#include "launcher/watch/verdict.h"

#include <sys/types.h>

/* All borrowed. */
struct local_ranks {
    int count;
    const pid_t *pids; /* [count]; not reaped before the end */
    void *status_page;
    struct pmix_server *server; /* NULL under a cluster's launcher; then: */
    struct engine_link *link;
    struct preload_watch *watch;
    struct rank_view *views; /* [count], zero at first */
    int order;               /* of the look that noticed an end last */
    uint64_t kills_before;   /* of the kernel, for want of memory, at the start */
    int look_at;             /* the rank whose process is looked at next: one at each look */
};

/* Once, at first: where each rank is. `gpus[i]`: its CUDA_VISIBLE_DEVICES, or NULL. */
void local_ranks_place(struct local_ranks *local, const char *const *gpus, bool softgpu);

/* Brings `views` up to date. An end is noticed once, and stays noticed. */
void local_ranks_look(struct local_ranks *local);

/* Passes a signal on to the processes that are the ranks: not to what they have started, which need not know it. */
void local_ranks_signal(const struct local_ranks *local, int number);

#endif

/*
 * local_ranks.h - what can be seen of the ranks that this launcher started: status page, ends, PMIx.
 *
 * Only looks; verdict.h judges what was seen. Supervisor's thread only.
 *
 * A rank ends as the process that was started for it does. If that one ends well while the trainer, which is what the
 * status page names, still trains (`./train &` as a script's last line), the rank goes on: the process by which the
 * trainer has fallen to us takes the first one's place, and ends the rank by its own end. Where nothing has trained yet
 * and processes are left, the trainer may be among them: for a while they are waited for, until one becomes the rank or
 * none is left. What falls to us is taken away when it has ended.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_LOCAL_RANKS_H
#define DDPRUN_LAUNCHER_WATCH_LOCAL_RANKS_H

#include "launcher/common/rank_view.h"
#include "launcher/watch/preload_watch.h"
#include "launcher/watch/process_list.h"

#include <sys/types.h>

/* All borrowed, but for `processes` and `picture`. */
struct local_ranks {
    int count;
    const pid_t *pids; /* [count]; not reaped before the end */
    struct rank_process {
        pid_t root;                       /* our child whose end is the rank's; not reaped before the end */
        pid_t trainer;                    /* that the status page named last; 0: none yet, or none that is ours */
        unsigned generation;              /* in which it did */
        unsigned long long trainer_start; /* of that process, as in process_state.h */
        pid_t left;                       /* the root has ended, and this one of its processes is waited for; or 0 */
        uint64_t left_ns;                 /* since then */
        bool left_program;                /* among what is left has been a program of its own (left_behind.h) */
    } * processes;                        /* [count] */
    void *status_page;
    /* At each look, once ends have been noted and before the status page is read: writes what the engines have said by
     * PMIx or by the link into views[count]: `connected`, and a first abort. */
    void (*hear_engines)(void *data, struct rank_view *views, int count);
    void *data;
    struct preload_watch *watch;
    struct rank_view *views;     /* [count], zero at first */
    int order;                   /* of the look that noticed an end last */
    uint64_t kills_before;       /* of the kernel, for want of memory, at the start */
    int look_at;                 /* the rank whose process is looked at next: one at each look */
    struct process_list picture; /* of the processes, */
    int pictured;                /* taken in that look, as in `order` */
};

/* Once, at first: where each rank is. `gpus[i]`: its CUDA_VISIBLE_DEVICES, or NULL. local_ranks_free() releases it. */
void local_ranks_place(struct local_ranks *local, const char *const *gpus, bool softgpu);
void local_ranks_free(struct local_ranks *local);

/* Brings `views` up to date. An end is noticed once, and stays noticed. */
void local_ranks_look(struct local_ranks *local);

/* Passes a signal on to the processes that are the ranks: not to what they have started, which need not know it. */
void local_ranks_signal(const struct local_ranks *local, int number);

#endif

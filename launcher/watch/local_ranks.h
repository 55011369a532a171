/*
 * local_ranks.h - what can be seen of the ranks that this launcher started: status page, ends, engines.
 *
 * Only looks; verdict.h judges what was seen. Supervisor's thread only.
 *
 * A rank ends with the process that was started for it. If that one ends well before anything of the rank has trained,
 * or in the middle of its trainer's training, and a process that may be the trainer lives on, then that is noted for
 * the verdict. What falls to us is taken away when it has ended.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_LOCAL_RANKS_H
#define DDPRUN_LAUNCHER_WATCH_LOCAL_RANKS_H

#include "launcher/common/rank_view.h"
#include "launcher/watch/processes.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rank_status;

/* What is remembered of one from look to look. */
struct seen_rank {
    uint64_t ended_ns;        /* when the process had ended, and something was left running; 0: not so far */
    uint64_t busy_ns;         /* when it was not idle last, */
    unsigned long long ticks; /* and what CPU time it had used then */
    bool blocked;             /* its main thread blocked the signal before that was sent (local_ranks_expect()) */
};

/* All borrowed, but for `seen`. */
struct local_ranks {
    int count;
    const pid_t *pids;      /* [count]: our children, whose ends are the ranks'; not reaped before the end */
    struct seen_rank *seen; /* [count] */
    void *status_page;
    /* At each look, once ends have been noted and before the status page is read: writes what the engines have said
     * into views[count]: `connected`. */
    void (*hear_engines)(void *data, struct rank_view *views, int count);
    void *data;
    struct preload_watch *watch;
    struct rank_view *views;       /* [count], zero at first */
    int order;                     /* of the look that noticed an end last */
    uint64_t kills_before;         /* of the kernel, for lack of memory, at the start */
    int look_at;                   /* the rank whose process is looked at next: one at each look */
    int expected;                  /* the signal that asks the ranks to stop; 0: none has */
    struct process_list processes; /* scratch, also of the supervisor; to be freed */
};

/* Once, at first: where each rank is. `gpus[i]`: its CUDA_VISIBLE_DEVICES, or NULL. Makes `seen`, to be freed. */
void local_ranks_place(struct local_ranks *local, const char *const *gpus, bool softgpu);

/* Brings `views` up to date. An end is noticed once, and stays noticed. */
void local_ranks_look(struct local_ranks *local);

/* Before a signal is sent that asks the ranks to stop: from now on looks also tell which rank is in its handler, and
 * which trainer outlives the script around it. */
void local_ranks_expect(struct local_ranks *local, int number);

/*
 * Passes a signal on to rank i: to the process that was started for it, to its trainer, and to what is between them;
 * not to what a trainer has started, which need not know it. A process that the signal would end does not get it.
 * Returns the innermost of these processes, the trainer, if it is left out for that reason; else 0.
 */
pid_t local_ranks_signal(const struct local_ranks *local, int i, int number);

/* Kills the trainer of rank i, with what it has started; a script around it continues. */
void local_ranks_end(struct local_ranks *local, int i, enum rank_killed why);

/* Notes that the time of all ranks that live is over; the caller kills them. */
void local_ranks_note_late(struct local_ranks *local);

/* Whether all ranks have ended, their trainers too. */
bool local_ranks_all_ended(const struct local_ranks *local);

/* Fills in what the rank says of itself (base/rank_fields.def), and what it waits for and does, as of `now_ns`
 * (CLOCK_MONOTONIC). From its status record (base/protocol.h), which is the trainer's memory: a defect of the trainer
 * may fill it with anything, so texts are made printable, and numbers are only shown. */
void rank_record_read(const struct rank_status *status, uint64_t now_ns, struct rank_view *view);

/* ---- preload_watch.c: did our library reach the process that uses the GPU? ---- */
/* Static and setuid programs drop LD_PRELOAD, and so do wrappers that clean the environment. Such a rank would train
 * alone, in silence: the supervisor looks whether a process of a rank has the CUDA driver mapped and our library not,
 * often at first, rarely after one has asked for the driver through us (a probe before the trainer may have), and
 * never again once one has become the rank. Supervisor's thread. (What a process with our library starts is seen by
 * that library, interpose/shim/execs.c.) */

struct preload_watch;

struct preload_watch *preload_watch_new(int rank_count, uint64_t now_ns);

/* Looks, if it is time to; pids[i] was started as rank i. Of each rank that had the driver without our library ever:
 * `missed_preload`; for so long that the job must be stopped: `preload_suspect`. `processes`: scratch. */
void preload_watch_look(struct preload_watch *watch, struct process_list *processes, const pid_t *pids,
                        struct rank_view *views, uint64_t now_ns);

void preload_watch_free(struct preload_watch *watch);

#endif

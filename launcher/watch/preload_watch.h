/*
 * preload_watch.h - did our library reach the process that uses the GPU?
 *
 * LD_PRELOAD is dropped by static programs, by setuid ones, and by wrappers that clean the environment. Such a rank
 * would train alone, in silence. So the supervisor looks from time to time whether some process of a rank has the CUDA
 * driver mapped and our library not. That our library answered in some process of the rank is not enough to stop
 * looking: a probe before the trainer may be that one. Looks at a rank often at first, rarely after some process has
 * asked for the driver through us, and never again once one has become the rank. Supervisor's thread.
 */
#ifndef DDPRUN_LAUNCHER_WATCH_PRELOAD_WATCH_H
#define DDPRUN_LAUNCHER_WATCH_PRELOAD_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct preload_watch;

/* What the watch knows of each rank, from its caller. */
struct preload_subject {
    pid_t pid;    /* of the process that was started as the rank */
    bool is_rank; /* a process became the rank, now or in an earlier program; or it has ended: nothing to look for */
    bool asked;   /* some process of it has asked for the driver through our library */
};

struct preload_watch *preload_watch_new(int rank_count, uint64_t now_ns);

/*
 * Looks, if it is time to. Returns a rank in which the driver has been in use without our library for so long that the
 * job must be stopped, and that process in *pid; -1: no such rank.
 */
int preload_watch_look(struct preload_watch *watch, const struct preload_subject *subjects, uint64_t now_ns,
                       pid_t *pid);

/* Was the driver ever seen without our library in this rank? */
bool preload_watch_saw(const struct preload_watch *watch, int rank);

void preload_watch_free(struct preload_watch *watch);

#endif

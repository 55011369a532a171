/*
 * placement.h - the processors and the memory that ranks are started on: near their GPUs, and never more than the
 * launcher was given itself.
 *
 * placement_make() is called by the launcher before anything is started; placement_enter() by each rank between fork
 * and execve.
 */
#ifndef DDPRUN_LAUNCHER_START_PLACEMENT_H
#define DDPRUN_LAUNCHER_START_PLACEMENT_H

#include "launcher/common/error.h"
#include "launcher/options/options.h"
#include "launcher/start/devices.h"

#include <sched.h>

/* Of one rank. */
struct rank_place {
    cpu_set_t *processors; /* NULL: as the launcher's */
    size_t bytes;          /* of it */
    int memory_node;       /* NUMA node that memory is taken from while there is some; -1: as the system does */
    char *list;            /* the processors as taskset takes them: "0-3,8"; NULL as above */
};

/* Release with placement_free(). */
struct placement {
    int rank_count;
    struct rank_place *ranks;
    const char *what; /* "none", "numa" or "core" */
    const char *why;  /* that it is so, as text; static */
    bool is_refused;  /* --bind asked for more; the user is to be informed */
};

/* Which of a machine's ranks are to be placed. */
struct placement_subject {
    int rank_count;       /* to be placed, the first of devices->visible */
    int first_local_rank; /* number of the first of them among the ranks of this machine */
    int local_size;       /* ranks of this machine */
    bool in_cluster;      /* started by a cluster's launcher, whose own binding counts */
};

/*
 * Decides. Without --bind: near the GPU where that is known and the launcher is not bound to a part of the machine,
 * else nothing. Error (DDPRUN_EXIT_USAGE): --bind core and too few cores; (DDPRUN_EXIT_FAILURE): --bind was given and
 * the machine cannot be looked at.
 */
bool placement_make(const struct options *options, const struct device_plan *devices,
                    const struct placement_subject *subject, struct placement *placement, struct error *error)
    __attribute__((warn_unused_result));

/* Binds this process. Async-signal-safe. Returns 0, or the errno of a processor set that was refused. */
int placement_enter(const struct rank_place *place);

/* "processors 0-3 and memory of node 0"; a new string. */
char *placement_describe(const struct rank_place *place);

void placement_free(struct placement *placement);

#endif

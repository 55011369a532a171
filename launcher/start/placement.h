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
#include "launcher/start/nvml.h"

#include <hwloc.h>
#include <sched.h>

/* Of one rank. */
struct rank_place {
    cpu_set_t *processors; /* NULL: as the launcher's */
    size_t bytes;          /* of it */
    int memory_node;       /* NUMA node that memory is taken from while there is some; -1: as the system does */
    char *list;            /* the processors as taskset takes them: "0-3,8"; NULL as above */
    int share;             /* how many processors it should keep busy; 0: all that it sees */
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
                    const struct placement_subject *subject, struct placement *placement, struct error *error) MUST_USE;

/* Where the ranks' GPUs are: bus_ids[rank_count], "" where that is not known. Returns whether any is. Asks NVML. */
bool placement_find_gpus(const struct device_plan *devices, int rank_count, char (*bus_ids)[NVML_TEXT_BYTES]);

/* Binds this process. Async-signal-safe. Returns 0, or the errno of a processor set that was refused. */
int placement_enter(const struct rank_place *place);

/* "not bound to cores", "on processors 0-3 and memory of node 0"; a new string. */
char *placement_describe(const struct rank_place *place);

void placement_free(struct placement *placement);

/* ---- placement_share.c ---- */
/*
 * Which processors each rank of a machine gets. Pure: from a picture of the machine (hwloc), what of it may be used,
 * and where the ranks' GPUs are.
 *
 * Called by placement.c, and by the unit tests with machines that do not exist.
 */

/* What is asked. */
struct share_request {
    hwloc_topology_t topology;
    hwloc_const_bitmap_t allowed;     /* processors that may be used: no share leaves them */
    enum bind_choice bind;            /* BIND_NUMA or BIND_CORE */
    int rank_count;                   /* ranks to place */
    int first_local_rank;             /* number of the first among the ranks of this machine */
    int local_size;                   /* ranks of this machine, whichever launcher places them */
    const hwloc_const_bitmap_t *near; /* near[rank]: processors near its GPU; NULL for one, or for all: not known */
};

/*
 * Sets shares[rank], bitmaps that the caller made. numa: the processors near the rank's GPU; where no GPU's place is
 * known, ranks are spread over the NUMA nodes. core: whole cores of those, disjoint for the ranks of this machine. A
 * rank that has nothing near its GPU gets all that is allowed. Error (DDPRUN_EXIT_USAGE): fewer cores than ranks.
 */
bool placement_share(const struct share_request *request, hwloc_bitmap_t *shares, struct error *error) MUST_USE;

/* The processors near the device with this bus id ("0000:3b:00.0"), which belong to the topology; NULL: it is not in
 * it, or is as near to all of the machine. */
hwloc_const_bitmap_t placement_near(hwloc_topology_t topology, const char *bus_id);

/* The one NUMA node that these processors belong to; -1: there are several, or none. */
int placement_node_of(hwloc_topology_t topology, hwloc_const_bitmap_t processors);

#endif

/*
 * placement_share.h - which processors each rank of a machine gets. Pure: from a picture of the machine (hwloc), what
 * of it may be used, and where the ranks' GPUs are.
 *
 * Called by placement.c, and by the unit tests with machines that do not exist.
 */
#ifndef DDPRUN_LAUNCHER_START_PLACEMENT_SHARE_H
#define DDPRUN_LAUNCHER_START_PLACEMENT_SHARE_H

#include "launcher/common/error.h"
#include "launcher/options/options.h"

#include <hwloc.h>

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
bool placement_share(const struct share_request *request, hwloc_bitmap_t *shares, struct error *error)
    __attribute__((warn_unused_result));

/* The processors near the device with this bus id ("0000:3b:00.0"), which belong to the topology; NULL: it is not in
 * it, or is as near to all of the machine. */
hwloc_const_bitmap_t placement_near(hwloc_topology_t topology, const char *bus_id);

/* The one NUMA node that these processors belong to; -1: there are several, or none. */
int placement_node_of(hwloc_topology_t topology, hwloc_const_bitmap_t processors);

#endif

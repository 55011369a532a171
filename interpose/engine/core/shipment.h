/*
 * shipment.h - buckets as they are sent: those of a group outside of graphs, or those of one captured step.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_CORE_SHIPMENT_H
#define DDPRUN_INTERPOSE_ENGINE_CORE_SHIPMENT_H

#include "bucketing/plan.h"
#include "comm/collectives.h"

#include <stddef.h>
#include <stdint.h>

/* What calls of DDP_WEIGHT add up to: this rank's items, and all ranks' together. 0 of 0: there was none. */
struct weight {
    uint64_t count, total;
};

/* The issuer's. */
struct shipment {
    struct plan *plan;
    struct bucket_wire *wires; /* [wire_count]: one for each of the plan's buckets */
    size_t wire_count;
    struct staging staging; /* of buckets that all ranks pack; each wire has a part of it lent */
    size_t *send_order;     /* places among the plan's pieces: within each bucket as its members are sent */
};

#endif

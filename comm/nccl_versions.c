/* nccl_versions.c - see nccl_versions.h. */
#include "comm/nccl_versions.h"

#include <limits.h>

enum { UNDEFINED = INT_MIN, CONFIG_MAGIC = (int)0xcafebeef };

/* From which version on the struct has which size. */
static const struct {
    int version;
    size_t bytes;
} sizes[] = {
    {NCCL_VERSION(2, 32, 0), 120}, {NCCL_VERSION(2, 31, 0), 112}, {NCCL_VERSION(2, 30, 0), 96},
    {NCCL_VERSION(2, 29, 0), 88},  {NCCL_VERSION(2, 28, 0), 80},  {NCCL_VERSION(2, 27, 0), 72},
    {NCCL_OLDEST_VERSION, 48},
};

#define BEGINS_AT(member, bytes) \
    _Static_assert(offsetof(struct nccl_config, member) == (bytes), "as NCCL's headers lay it out")

_Static_assert(sizeof(struct nccl_config) == 120, "as NCCL's headers lay it out");
BEGINS_AT(communicator_name, 48);
BEGINS_AT(channels_per_net_peer, 72);
BEGINS_AT(graph_usage_mode, 80);
BEGINS_AT(most_p2p_peers, 88);
BEGINS_AT(launch_order_implicit, 96);
BEGINS_AT(nvls_host_mode, 112);

#define IS(constant, value) _Static_assert((constant) == (value), "the same in every version")

_Static_assert(sizeof(ncclUniqueId) == 128, "the same in every version");
IS(ncclRemoteError, 6);
IS(ncclInProgress, 7);
IS(ncclSum, 0);
IS(ncclMax, 2);
IS(ncclMin, 3);
IS(ncclAvg, 4);
IS(ncclUint8, 1);
IS(ncclInt32, 2);
IS(ncclUint32, 3);
IS(ncclInt64, 4);
IS(ncclUint64, 5);
IS(ncclFloat16, 6);
IS(ncclFloat32, 7);
IS(ncclFloat64, 8);

void
nccl_config_fill(struct nccl_config *config, int version, bool blocking)
{
    if (version > NCCL_NEWEST_KNOWN)
        version = NCCL_NEWEST_KNOWN;
    size_t i = 0;
    while (version < sizes[i].version && sizes[i].version > NCCL_OLDEST_VERSION)
        ++i;
    *config = (struct nccl_config){
        .size = sizes[i].bytes,
        .magic = (unsigned)CONFIG_MAGIC,
        .version = (unsigned)version,
        .blocking = blocking,
        .cga_cluster_size = UNDEFINED,
        .min_ctas = UNDEFINED,
        .max_ctas = UNDEFINED,
        .split_share = UNDEFINED,
        .traffic_class = UNDEFINED,
        .collnet_enable = UNDEFINED,
        .cta_policy = UNDEFINED,
        .shrink_share = UNDEFINED,
        .nvls_ctas = UNDEFINED,
        .channels_per_net_peer = UNDEFINED,
        .nvlink_centric_sched = UNDEFINED,
        .graph_usage_mode = UNDEFINED,
        .rma_contexts = UNDEFINED,
        .most_p2p_peers = UNDEFINED,
        .graph_stream_ordering = UNDEFINED,
        .launch_order_implicit = UNDEFINED,
        .rma_signals = UNDEFINED,
        .rma_eager_init = UNDEFINED,
        .host_cft_mode = UNDEFINED,
        .nvls_host_mode = UNDEFINED,
    };
}

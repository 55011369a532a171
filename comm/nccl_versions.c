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

_Static_assert(sizeof(struct nccl_config) == 120 && offsetof(struct nccl_config, communicator_name) == 48 &&
                   offsetof(struct nccl_config, channels_per_net_peer) == 72 &&
                   offsetof(struct nccl_config, graph_usage_mode) == 80 &&
                   offsetof(struct nccl_config, most_p2p_peers) == 88 &&
                   offsetof(struct nccl_config, launch_order_implicit) == 96 &&
                   offsetof(struct nccl_config, nvls_host_mode) == 112,
               "as NCCL's headers lay it out");
_Static_assert(sizeof(ncclUniqueId) == 128 && ncclRemoteError == 6 && ncclInProgress == 7 && ncclSum == 0 &&
                   ncclMax == 2 && ncclMin == 3 && ncclAvg == 4 && ncclUint8 == 1 && ncclInt32 == 2 &&
                   ncclUint32 == 3 && ncclInt64 == 4 && ncclUint64 == 5 && ncclFloat16 == 6 && ncclFloat32 == 7 &&
                   ncclFloat64 == 8,
               "the same in every version");

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

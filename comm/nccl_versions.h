/*
 * nccl_versions.h - what differs between the NCCLs that a job may open, from 2.18 to 2.32: known here, whichever nccl.h
 * the build had.
 *
 * Found by compiling the nccl.h of each release from 2.18.1 to 2.32.3: ncclConfig_t grows at its end and nowhere else;
 * the functions of comm/nccl.h, ncclUniqueId (128 bytes), and the numbers of results, types and operations are the
 * same in all of them.
 */
#ifndef DDPRUN_COMM_NCCL_VERSIONS_H
#define DDPRUN_COMM_NCCL_VERSIONS_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

/* The first that a job may have, and the last whose ncclConfig_t is known. As NCCL_VERSION(). */
#define NCCL_OLDEST_VERSION NCCL_VERSION(2, 18, 0)
#define NCCL_NEWEST_KNOWN   NCCL_VERSION(2, 32, 3)

/* Headers before 2.24 show ncclBfloat16 to C++ only. */
#define NCCL_BFLOAT16 ((ncclDataType_t)9)

/* ncclConfig_t as of 2.32; earlier ones are its beginning. Fields without a word here are left to NCCL. */
struct nccl_config {
    size_t size; /* of the struct of that version */
    unsigned magic;
    unsigned version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
    int traffic_class;             /* since 2.26 */
    const char *communicator_name; /* since 2.27, like the next four */
    int collnet_enable;
    int cta_policy;
    int shrink_share;
    int nvls_ctas;
    int channels_per_net_peer; /* since 2.28, like the next */
    int nvlink_centric_sched;
    int graph_usage_mode; /* since 2.29, like the next */
    int rma_contexts;
    int most_p2p_peers;        /* since 2.30.3 */
    int graph_stream_ordering; /* since 2.30.7 */
    int launch_order_implicit; /* since 2.31, like the next three */
    int rma_signals;
    int rma_eager_init;
    int host_cft_mode;
    int nvls_host_mode; /* since 2.32 */
};

/*
 * The configuration of a communicator for the NCCL of `version`, which ncclCommInitRankConfig gets as an ncclConfig_t:
 * all is left to NCCL but whether its calls block. A newer NCCL than is known takes the newest known one. Any thread.
 */
void nccl_config_fill(struct nccl_config *config, int version, bool blocking);

#endif

/*
 * launched.h - which launcher started this process as one of several, or one ddprun of several hosts by its options.
 *
 * --nnodes counts first, then a table of ways, in their order: the first of which all variables are set, and that is of
 * several processes, is the one. Where none is, a number of processes above 1, or a rank above 0, is refused: each
 * would train alone, and in silence. Variables that say nothing of other processes (a MASTER_ADDR in a shell's profile)
 * are left alone. Reads the environment, changes nothing.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_LAUNCHED_H
#define DDPRUN_LAUNCHER_CLUSTER_LAUNCHED_H

#include "launcher/common/error.h"

#include <stddef.h>

enum launched_by {
    LAUNCHED_ALONE,
    LAUNCHED_BY_OPTIONS, /* --nnodes, --node-rank, --master */
    LAUNCHED_BY_TORCHRUN,
    LAUNCHED_BY_PMIX,
    LAUNCHED_BY_PYTORCHJOB,
    LAUNCHED_BY_VARIABLES, /* RANK, WORLD_SIZE, MASTER_ADDR, by any launcher */
    LAUNCHED_BY_SLURM,     /* without PMIx */
    LAUNCHED_BY_MPI,       /* likewise */
};

enum { LAUNCHED_NAMES_BYTES = 256, LAUNCHED_HOST_BYTES = 256 };

/* What the command line says of it. */
struct launch_request {
    int rank_count;      /* -n; 0: not given */
    unsigned node_count; /* --nnodes; 0: not given */
    int node_rank;       /* --node-rank; -1: not given */
    const char *master;  /* --master, HOST[:PORT]; NULL: not given */
};

struct launched {
    enum launched_by by;
    bool is_host;                         /* it stands for a host, on which it is to start a ddprun for each rank */
    int rank_count;                       /* of a host: ranks on it; 0: as many as there are GPUs */
    int node_rank, nodes;                 /* likewise: which of how many hosts */
    int rank, world_size;                 /* of a rank, but by PMIx */
    int local_rank, local_size;           /* likewise; -1 and 0: not known */
    char address[LAUNCHED_HOST_BYTES];    /* the host at which the processes meet; empty: by PMIx */
    unsigned port;                        /* 0: not known */
    char run[64];                         /* the name of this run; empty: it has none */
    unsigned restart;                     /* how often the launcher has started it again */
    char variables[LAUNCHED_NAMES_BYTES]; /* "A and B", of which this was read; "" of a process alone */
};

/* Error (DDPRUN_EXIT_USAGE): another launcher started this process as one of several, and ddprun cannot join the
 * others; what is asked for contradicts that launcher, or is not complete; or this is a rank of another ddprun. */
bool launched_look(const struct launch_request *request, struct launched *launched, struct error *error) MUST_USE;

/* Under srun: whether -n asks for several ranks, and srun was asked for one task on each host. Then *error
 * (DDPRUN_EXIT_USAGE) says which option of srun to change. */
bool launched_is_one_per_host(int rank_count, struct error *error) MUST_USE;

/* Whether variables say that there are other hosts or tasks, of which a process that is alone may be meant to be one:
 * "SLURM_JOB_NUM_NODES=2, but ...: this host trains alone; ...". "": they do not, or --nnodes was given. */
void launched_describe_alone(const struct launch_request *request, char *text, size_t bytes);

/* What the ddprun of a host sets for the one of its rank: "LOCAL_RANK:RANKS", DDPRUN_ENV_MEMBER. */
#define LAUNCHED_MEMBER_FORMAT "%d:%d"

#endif

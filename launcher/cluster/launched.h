/*
 * launched.h - which launcher started this process as one of several, going by its variables.
 *
 * A table of ways, in the order in which they count: the first of which all variables are set is the one. Where none
 * is, a number of processes above 1 is refused: each would train alone, and in silence. Variables that say nothing of
 * other processes (a MASTER_ADDR in a shell's profile) are left alone. Reads the environment, changes nothing.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_LAUNCHED_H
#define DDPRUN_LAUNCHER_CLUSTER_LAUNCHED_H

#include "launcher/common/error.h"

#include <stddef.h>

enum launched_by {
    LAUNCHED_ALONE,
    LAUNCHED_BY_TORCHRUN,
    LAUNCHED_BY_PMIX,
    LAUNCHED_BY_PYTORCHJOB,
    LAUNCHED_BY_VARIABLES, /* RANK, WORLD_SIZE, MASTER_ADDR, by any launcher */
    LAUNCHED_BY_SLURM,     /* without PMIx */
    LAUNCHED_BY_MPI,       /* likewise */
};

enum { LAUNCHED_NAMES_BYTES = 256 };

/* Texts are the environment's. */
struct launched {
    enum launched_by by;
    int rank, world_size, local_rank;     /* by torchrun or variables; local_rank -1: not known */
    const char *address;                  /* the host at which the processes meet; NULL: by PMIx */
    unsigned port;                        /* 0: not known */
    const char *run;                      /* the name of this run; NULL: it has none */
    unsigned restart;                     /* how often the launcher has started it again */
    char variables[LAUNCHED_NAMES_BYTES]; /* "A and B", which say so; of a process alone, which do not */
};

/*
 * Error (DDPRUN_EXIT_USAGE): another launcher started this process as one of several, and ddprun cannot join the
 * others; or this is a rank of another ddprun. `rank_count`: that -n was given, for the message; 0: it was not.
 */
bool launched_look(int rank_count, struct launched *launched, struct error *error) __attribute__((warn_unused_result));

#endif

/*
 * library.h - libddprun-pmix.so, the only use of PMIx in the project: this process as a member of a job that the PMIx
 * server of a cluster's launcher (srun --mpi=pmix, mpirun) knows. It is opened where such a launcher started ddprun
 * (cluster.h): elsewhere ddprun needs no PMIx. member.c is what it is made of; library.c opens it.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_PMIX_LIBRARY_H
#define DDPRUN_LAUNCHER_CLUSTER_PMIX_LIBRARY_H

#include "launcher/cluster/member.h"
#include "launcher/common/error.h"

#include <stdint.h>

#define PMIX_LIBRARY        "libddprun-pmix.so"
#define PMIX_LIBRARY_SYMBOL "ddprun_pmix_member"

/* What the library exports, as PMIX_LIBRARY_SYMBOL. */
struct pmix_library {
    uint32_t protocol;            /* DDPRUN_PROTOCOL_VERSION that it was built with: look at this first */
    const char *(*version)(void); /* of PMIx, with words around it; any time, any thread */
    struct cluster_member member;
};

/* Opens it: it lies beside ddprun's other libraries. Stays open. NULL: the error (DDPRUN_EXIT_NOT_RUN) says what is
 * missing, and what to install. */
const struct pmix_library *pmix_library_open(struct error *error) MUST_USE;

/* The right to be this rank of the launcher's job, until the descriptor is closed: two processes with one PMIx rank
 * corrupt every fence. -1: another ddprun has it. */
int pmix_claim_rank(struct error *error) MUST_USE;

#endif

/*
 * joined.h - the library of PMIx, as ddprun opens it. joined.c is this process as a member by PMIx
 * (launcher/cluster/member.h).
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_PMIX_JOINED_H
#define DDPRUN_LAUNCHER_CLUSTER_PMIX_JOINED_H

#include "launcher/cluster/pmix/member.h"
#include "launcher/common/error.h"

/* Opens libddprun-pmix.so, which lies beside ddprun's other libraries. Stays open. NULL: the error
 * (DDPRUN_EXIT_NOT_RUN) says what is missing, and what to install. */
const struct pmix_member *pmix_library_open(struct error *error) __attribute__((warn_unused_result));

#endif

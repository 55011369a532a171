/*
 * verbose.h - what -v prints while a job runs: the NCCL that its ranks opened, and each plan of buckets that they
 * adopted. The supervisor calls it at each look; one thread.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_VERBOSE_H
#define DDPRUN_LAUNCHER_REPORT_VERBOSE_H

#include "launcher/common/rank_view.h"

/* What was printed already; zeroed at first. */
struct verbose {
    unsigned nccl_version;
    uint64_t bucket_count;
};

/* Prints what is new of rank 0: what it does, all do. NULL: nothing. Later, if stderr takes nothing now. */
void verbose_tell(struct verbose *verbose, const struct rank_view *rank);

/* "2.27.3" of an NCCL_VERSION_CODE. */
const char *verbose_nccl_text(unsigned version, char text[32]);

#endif

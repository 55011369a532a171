/*
 * news.h - what -v tells while a job runs: the NCCL that its ranks opened, and each plan of buckets that they adopted.
 * The supervisor calls it at each look; one thread.
 */
#ifndef DDPRUN_LAUNCHER_REPORT_NEWS_H
#define DDPRUN_LAUNCHER_REPORT_NEWS_H

#include "launcher/common/rank_view.h"

/* What was told already; zeroed at first. */
struct news {
    unsigned nccl_version;
    uint64_t bucket_count;
};

/* Tells what is new of rank 0: what it does, all do. NULL news: nothing. Later, if nobody reads stderr now. */
void news_tell(struct news *news, const struct rank_view *rank);

/* "2.27.3" of an NCCL_VERSION_CODE. */
const char *news_nccl_text(unsigned version, char text[32]);

#endif

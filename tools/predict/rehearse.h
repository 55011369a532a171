/*
 * rehearse.h - a run of the program for some steps, by a ddprun of its own, for its trace.
 */
#ifndef DDPRUN_TOOLS_PREDICT_REHEARSE_H
#define DDPRUN_TOOLS_PREDICT_REHEARSE_H

#include "launcher/options/options.h"
#include "tools/predict/request.h"

#include <signal.h>

/* One rank with a link, or else two; DDP_SHARD gives each the share that it has among `shares` ranks. Borrowed. */
struct rehearsal {
    const struct options *options;
    const struct predict_request *request;
    unsigned shares;
    const char *folder; /* for the trace and what the program prints; the caller removes it */
    const char *trace;  /* in it */
    sigset_t old_mask;  /* of inner_run_block_signals() */
};

/* Returns when the program has made its steps, or has ended. Error: it failed by itself, took too long, or a signal
 * asked for the end (exit code 128 + signal). */
bool rehearse(const struct rehearsal *rehearsal, struct error *error) __attribute__((warn_unused_result));

#endif

/*
 * ranks.h - what the tools load into the ranks of a job that one of them has started, or of a job with --plan: an
 * engine of their own, or a library in front of the engine, and the one that redirects or notes files (tools/sandbox/).
 *
 * Handed to the job by main(); called by launcher/start/environment.c and launcher/job_start.c. Which tool it is, the
 * variables say that the tool has set for the ddprun that it starts.
 */
#ifndef DDPRUN_TOOLS_RANKS_H
#define DDPRUN_TOOLS_RANKS_H

#include "launcher/start/environment.h"

extern const struct rank_equipment tools_equipment;

#endif

/*
 * sections.h - the parts of a page, in the order in which they stand. Each writes what it has to say, or why it has
 * nothing.
 */
#ifndef DDPRUN_TOOLS_PAGE_SECTIONS_H
#define DDPRUN_TOOLS_PAGE_SECTIONS_H

#include "tools/predict/predict.h"
#include "tools/trace/facts.h"

#include <stdio.h>

/* overview.c: whose run it was, what the trace lacks, and the verdict. `model`: NULL: none could be made, and `why`.
 */
void section_overview(FILE *out, const struct facts *facts, const struct model *model, const char *why);
/* failure.c: of a job that failed, who, where, and how many steps each rank had made; nothing of others */
void section_failure(FILE *out, const struct facts *facts);
/* and what was warned of; nothing if nothing was */
void section_warnings(FILE *out, const struct facts *facts);
/* steps.c */
void section_steps(FILE *out, const struct facts *facts);
/* spread.c: percentiles, a histogram, and curves over the run */
void section_spread(FILE *out, const struct facts *facts);
/* timeline.c: one step, with buckets */
void section_timeline(FILE *out, const struct facts *facts);
/* means.c: the curves of DDP_MEAN */
void section_means(FILE *out, const struct facts *facts);
/* buckets.c */
void section_buckets(FILE *out, const struct facts *facts);
/* settings.c: settings, versions, checks */
void section_settings(FILE *out, const struct facts *facts);

#endif
